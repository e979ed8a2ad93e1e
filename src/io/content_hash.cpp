#include "io/content_hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fstream>
#include <mac/error.hpp>
#include <memory>

namespace mac {

namespace {

std::string to_text(XXH128_hash_t hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

}  // namespace

std::string hash_text(std::string_view text) { return to_text(XXH3_128bits(text.data(), text.size())); }

std::string hash_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw Error("{}: cannot be read", path.string());
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> buffer(1 << 20);
  while (stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), stream.gcount() > 0)
    XXH3_128bits_update(state.get(), buffer.data(), static_cast<std::size_t>(stream.gcount()));
  if (stream.bad()) throw Error("{}: cannot be read to its end", path.string());
  return to_text(XXH3_128bits_digest(state.get()));
}

std::string hash_parts(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) joined += fmt::format("{}:{}\n", part.size(), part);
  return hash_text(joined);
}

}  // namespace mac
