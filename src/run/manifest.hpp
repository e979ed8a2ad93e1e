// What a run folder holds and what each file was made from: run.json.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace mac {

class Manifest {
 public:
  /// Reads folder/run.json if it is there; Error if it is not a manifest.
  explicit Manifest(const std::filesystem::path& folder);

  /// Whether the output is there, unchanged since it was recorded, and made from inputs with this hash.
  bool is_valid(const std::string& output, const std::string& inputs) const;
  /// Whether the output is there, but not as it was recorded.
  bool is_changed(const std::string& output) const;
  /// Records an output that was just made and writes run.json.
  void record(const std::string& output, const std::string& inputs);
  /// The recorded content hash of an output.
  const std::string& content(const std::string& output) const;

 private:
  struct Entry {
    std::string inputs, content;
  };
  std::filesystem::path folder_;
  std::map<std::string, Entry> entries_;
};

}  // namespace mac
