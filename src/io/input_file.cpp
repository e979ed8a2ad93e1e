#include "io/input_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mac/error.hpp>
#include <memory>
#include <string>

namespace mac {

namespace fs = std::filesystem;

void require_file(const fs::path& path) {
  if (::access(path.c_str(), R_OK) != 0) {
    if (errno == ENOENT) throw Error("{}: does not exist", path.string());
    throw Error("{}: cannot be read: {}", path.string(), std::strerror(errno));
  }
  if (fs::is_directory(path)) throw Error("{}: is a folder, expected a file", path.string());
  if (!fs::is_regular_file(path)) throw Error("{}: is a device or a pipe, expected a file", path.string());
}

std::string read_file(const fs::path& path) { return read_file(path, SIZE_MAX); }

std::string read_file(const fs::path& path, std::size_t most) {
  require_file(path);
  // Streams take a failing disk for the end of the file.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  std::string bytes;
  std::array<char, 1 << 16> buffer;
  while (file && !std::ferror(file.get()) && !std::feof(file.get()) && bytes.size() < most)
    bytes.append(buffer.data(),
                 std::fread(buffer.data(), 1, std::min(buffer.size(), most - bytes.size()), file.get()));
  if (!file || std::ferror(file.get()))
    throw Error("{}: cannot be read: {}", path.string(), std::strerror(errno));
  return bytes;
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code failure;
  const fs::path canonical = fs::weakly_canonical(a, failure);
  return fs::equivalent(a, b, failure) ||
         (!canonical.empty() && canonical == fs::weakly_canonical(b, failure));
}

void check_output(const fs::path& output, std::initializer_list<fs::path> inputs) {
  for (const fs::path& input : inputs)
    if (!input.empty() && same_file(output, input))
      throw UsageError("{}: would overwrite the input {}", output.string(), input.string());
}

FileKind file_kind(const fs::path& path) {
  const std::string start = read_file(path, 64);
  if (start.starts_with("\x89HDF\r\n\x1a\n")) return FileKind::hdf5;
  const bool json_after_length = start.size() > 8 && start[8] == '{' && start[7] == '\0';
  if (json_after_length) return FileKind::safetensors;
  if (start.size() > 2 && start[0] == '\x08' && start[2] == '\x12')
    return FileKind::onnx;  // version, producer
  const auto is_text = [](unsigned char c) {
    return (c >= ' ' && c < 0xf5) || c == '\n' || c == '\r' || c == '\t';  // as in UTF-8
  };
  if (start.empty() || !std::ranges::all_of(start, is_text)) return FileKind::unknown;
  return start.front() == '{' ? FileKind::json : FileKind::text;
}

std::string_view description(FileKind kind) {
  switch (kind) {
    case FileKind::safetensors:
      return "a safetensors file";
    case FileKind::hdf5:
      return "an HDF5 file";
    case FileKind::onnx:
      return "an ONNX graph";
    case FileKind::json:
      return "a JSON file";
    case FileKind::text:
      return "a text file";
    case FileKind::unknown:
      break;
  }
  return "a file of an unknown kind";
}

}  // namespace mac
