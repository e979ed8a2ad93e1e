#include "io/file_digest.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mac/error.hpp>
#include <memory>

#include "io/content_hash.hpp"
#include "io/file_version.hpp"

namespace mac {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view opening = "\nMAC digest XXH3", closing = "is of all above\n";
constexpr std::size_t hash_digits = 32, size = 64;
static_assert(opening.size() + hash_digits + closing.size() == size);

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

SeenFiles& whole_files() {
  static SeenFiles the;
  return the;
}

/// The last bytes of a file, as many as a digest has; fewer of a shorter file.
std::string tail(const fs::path& path, std::uintmax_t file_size) {
  const File file(std::fopen(path.c_str(), "rbe"), std::fclose);
  std::string bytes(std::min<std::uintmax_t>(size, file_size), '\0');
  if (!file || ::fseeko(file.get(), static_cast<off_t>(file_size - bytes.size()), SEEK_SET) != 0 ||
      std::fread(bytes.data(), 1, bytes.size(), file.get()) != bytes.size())
    throw Error("{}: cannot be read: {}", path.string(), std::strerror(errno));
  return bytes;
}

}  // namespace

void append_digest(const fs::path& path, const std::string& name) {
  const std::string digest = fmt::format("{}{}{}", opening, hash_file(path), closing);
  File file(std::fopen(path.c_str(), "abe"), std::fclose);
  const bool written = file && std::fwrite(digest.data(), 1, size, file.get()) == size;
  if (!written || std::fclose(file.release()) != 0)
    throw Error("{}: cannot write this file to the end: {}", name, std::strerror(errno));
}

bool check_digest(const fs::path& path) {
  const FileVersion version = version_of(path.string());
  if (whole_files().contains(version)) return true;
  const std::uintmax_t bytes = fs::file_size(path);
  const std::string last = tail(path, bytes);
  if (!last.starts_with(opening) && !last.ends_with(closing)) return false;
  if (last.size() < size || last != fmt::format("{}{}{}", opening, hash_file(path, bytes - size), closing))
    throw Error("{}: is damaged, its checksum does not fit its contents", path.string());
  whole_files().insert(version);
  return true;
}

void trust_file(const fs::path& path) { whole_files().insert(version_of(path.string())); }

}  // namespace mac
