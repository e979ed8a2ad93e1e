#include "io/content_hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mac/error.hpp>
#include <memory>

#include "io/input_file.hpp"

namespace mac {

namespace {

std::string to_text(XXH128_hash_t hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

}  // namespace

std::string hash_text(std::string_view text) { return to_text(XXH3_128bits(text.data(), text.size())); }

std::string hash_file(const std::filesystem::path& path, std::optional<std::uintmax_t> first) {
  require_file(path);
  // Streams take a failing disk for the end of the file.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) throw Error("{}: cannot be read: {}", path.string(), std::strerror(errno));
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> buffer(1 << 18);  // stays in the cache
  std::uintmax_t left = first.value_or(UINTMAX_MAX);
  while (left > 0) {
    const std::size_t most = std::min<std::uintmax_t>(buffer.size(), left);
    const std::size_t count = std::fread(buffer.data(), 1, most, file.get());
    XXH3_128bits_update(state.get(), buffer.data(), count);
    left -= count;
    if (count == most) continue;
    if (std::ferror(file.get())) throw Error("{}: cannot be read: {}", path.string(), std::strerror(errno));
    if (first) throw Error("{}: is shorter than it was", path.string());
    break;
  }
  return to_text(XXH3_128bits_digest(state.get()));
}

std::string hash_parts(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) joined += fmt::format("{}:{}\n", part.size(), part);
  return hash_text(joined);
}

}  // namespace mac
