#include "run/manifest.hpp"

#include <mac/error.hpp>
#include <nlohmann/json.hpp>

#include "io/atomic_file.hpp"
#include "io/content_hash.hpp"
#include "io/json_text.hpp"

namespace mac {

namespace fs = std::filesystem;

namespace {

/// Of everything else in the record.
std::string checksum(nlohmann::json record) {
  record.erase("checksum");
  return hash_text(record.dump());
}

}  // namespace

Manifest::Manifest(const fs::path& folder) : folder_(folder) {
  const fs::path path = folder_ / "run.json";
  if (!fs::exists(path)) return;
  try {
    auto record = nlohmann::json::parse(read_json_text(path));
    for (const auto& [output, entry] : record.at("outputs").items())
      entries_[output] = {entry.at("inputs"), entry.at("content")};
    if (record.contains("files"))
      for (const auto& [file, content] : record["files"].items()) notes_[file] = content;
    has_checksum_ = record.contains("checksum") || record.contains("files");
    if (has_checksum_ && record.at("checksum") != checksum(record))
      throw Error("{}: is damaged, its checksum does not fit its contents; remove it to start again",
                  path.string());
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
  write();
}

void Manifest::note(const std::string& file) {
  std::string content = hash_file(folder_ / file);
  if (notes_[file] == content) return;
  notes_[file] = std::move(content);
  write();
}

void Manifest::write() {
  nlohmann::json outputs = nlohmann::json::object();
  for (const auto& [name, entry] : entries_)
    outputs[name] = {{"inputs", entry.inputs}, {"content", entry.content}};
  nlohmann::json record{{"outputs", outputs}, {"files", notes_}};
  record["checksum"] = checksum(record);
  write_file_atomically(folder_ / "run.json", record.dump(2) + "\n");
  has_checksum_ = true;
}

std::map<std::string, std::string> Manifest::contents() const {
  std::map<std::string, std::string> all = notes_;
  for (const auto& [name, entry] : entries_) all[name] = entry.content;
  return all;
}

const std::string& Manifest::content(const std::string& output) const { return entries_.at(output).content; }

}  // namespace mac
