#include "run/manifest.hpp"

#include <mac/error.hpp>
#include <nlohmann/json.hpp>

#include "io/atomic_file.hpp"
#include "io/content_hash.hpp"
#include "io/input_file.hpp"

namespace mac {

namespace fs = std::filesystem;

Manifest::Manifest(const fs::path& folder) : folder_(folder) {
  const fs::path path = folder_ / "run.json";
  if (!fs::exists(path)) return;
  try {
    const auto record = nlohmann::json::parse(read_file(path));
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
