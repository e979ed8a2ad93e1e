// What a run folder holds and what each file was made from: run.json.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace mac {

class Manifest {
 public:
  /// Reads folder/run.json if it is there; Error if it is not a manifest, or damaged.
  explicit Manifest(const std::filesystem::path& folder);

  /// Whether the output is there, unchanged since it was recorded, and made from inputs with this hash.
  bool is_valid(const std::string& output, const std::string& inputs) const;
  /// Whether the output is there, but not as it was recorded.
  bool is_changed(const std::string& output) const;
  /// Records an output that was just made and writes run.json.
  void record(const std::string& output, const std::string& inputs);
  /// Remembers the content of a file that came along with an output, for `mac verify`.
  void note(const std::string& file);
  /// The recorded content hash of an output.
  const std::string& content(const std::string& output) const;
  /// Those of all files.
  std::map<std::string, std::string> contents() const;
  /// Whether run.json has a checksum of itself; it fits then.
  bool has_checksum() const { return has_checksum_; }

 private:
  struct Entry {
    std::string inputs, content;
  };
  std::filesystem::path folder_;
  void write();
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> notes_;  // content of files beside the outputs
  bool has_checksum_ = false;
};

}  // namespace mac
