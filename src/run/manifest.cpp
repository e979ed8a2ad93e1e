#include "run/manifest.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fstream>
#include <mac/error.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "io/atomic_file.hpp"

namespace mac {

namespace fs = std::filesystem;

namespace {

std::string to_text(XXH128_hash_t hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

}  // namespace

std::string hash_text(std::string_view text) { return to_text(XXH3_128bits(text.data(), text.size())); }

std::string hash_file(const fs::path& path) {
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

Manifest::Manifest(const fs::path& folder) : folder_(folder) {
  const fs::path path = folder_ / "run.json";
  if (!fs::exists(path)) return;
  std::ifstream stream(path);
  try {
    const auto record = nlohmann::json::parse(stream);
    for (const auto& [output, entry] : record.at("outputs").items())
      entries_[output] = {entry.at("inputs"), entry.at("content")};
  } catch (const nlohmann::json::exception& error) {
    throw Error("{}: is not the record of a run: {}; remove it to start again", path.string(), error.what());
  }
}

bool Manifest::is_valid(const std::string& output, const std::string& inputs) const {
  const auto entry = entries_.find(output);
  return entry != entries_.end() && entry->second.inputs == inputs && fs::is_regular_file(folder_ / output) &&
         !is_changed(output);
}

bool Manifest::is_changed(const std::string& output) const {
  const auto entry = entries_.find(output);
  return entry != entries_.end() && fs::is_regular_file(folder_ / output) &&
         hash_file(folder_ / output) != entry->second.content;
}

void Manifest::record(const std::string& output, const std::string& inputs) {
  entries_[output] = {inputs, hash_file(folder_ / output)};
  nlohmann::json outputs = nlohmann::json::object();
  for (const auto& [name, entry] : entries_)
    outputs[name] = {{"inputs", entry.inputs}, {"content", entry.content}};
  write_file_atomically(folder_ / "run.json", nlohmann::json{{"outputs", outputs}}.dump(2) + "\n");
}

const std::string& Manifest::content(const std::string& output) const { return entries_.at(output).content; }

}  // namespace mac
