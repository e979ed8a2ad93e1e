#include "cli/file_kind.hpp"

#include <filesystem>
#include <fstream>
#include <mac/error.hpp>
#include <string_view>

namespace mac::cli {

FileKind file_kind(const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure))
    throw Error("{}: {}", path, std::filesystem::exists(path, failure) ? "is not a file" : "does not exist");
  constexpr std::string_view hdf5_signature = "\x89HDF\r\n\x1a\n";
  std::string start(hdf5_signature.size(), '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error("{}: cannot be read", path);
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  return start == hdf5_signature ? FileKind::hdf5 : FileKind::safetensors;
}

}  // namespace mac::cli
