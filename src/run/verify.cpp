#include "run/verify.hpp"

#include <algorithm>
#include <mac/error.hpp>
#include <mac/safetensors.hpp>
#include <map>
#include <span>

#include "io/atomic_file.hpp"
#include "io/content_hash.hpp"
#include "io/file_digest.hpp"
#include "io/hdf5.hpp"
#include "io/input_file.hpp"
#include "run/manifest.hpp"
#include "runtime/saved_columns.hpp"

namespace mac {

namespace fs = std::filesystem;

namespace {

constexpr const char* record_name = "run.json";

/// Reads every dataset, so that the checksums of its blocks are looked at.
void read_datasets(const std::string& path) {
  const h5::File file = h5::File::open(path);
  for (const std::string& name : file.datasets()) {
    if (file.is_text(name))
      file.read_text(name);
    else
      file.dataset(name).read_all();
  }
}

bool is_saved_state(const std::string& path) { return read_file(path, 8) == "MACSTATE"; }

/// Nothing where it is no file of a kind that can carry a checksum.
std::optional<VerifiedFile> verify_alone(const std::string& path) {
  switch (file_kind(path)) {
    case FileKind::safetensors:
      if (Safetensors::read(path).has_checksum()) return VerifiedFile{path, Soundness::whole, "its checksum"};
      return VerifiedFile{path, Soundness::without_checksum,
                          "has no checksum, but its tensors are all there"};
    case FileKind::hdf5:
      if (check_digest(path)) return VerifiedFile{path, Soundness::whole, "its checksum"};
      read_datasets(path);
      return VerifiedFile{path, Soundness::without_checksum,
                          "has no checksum of the whole, but its datasets can be read"};
    default:
      if (!is_saved_state(path)) return std::nullopt;
      const std::string bytes = read_file(path);
      check_saved(std::as_bytes(std::span(bytes)));
      return VerifiedFile{path, Soundness::whole, "its checksum"};
  }
}

std::optional<VerifiedFile> verify_file(const std::string& path) {
  try {
    return verify_alone(path);
  } catch (const Error& error) {
    std::string what = error.what();
    if (what.starts_with(path + ": ")) what.erase(0, path.size() + 2);
    return VerifiedFile{path, Soundness::damaged, what};
  }
}

/// By what the record of the run says, then by the file's own checksum.
VerifiedFile verify_recorded(const fs::path& folder, const std::string& name, const std::string& content) {
  const std::string path = (folder / name).string();
  if (!fs::exists(path)) return {path, Soundness::missing, "run.json has it, the folder has not"};
  if (hash_file(path) != content)
    return {path, Soundness::damaged, "is not as it was when run.json was written"};
  const auto own = verify_file(path);
  if (own && own->soundness == Soundness::damaged) return *own;
  return {path, Soundness::whole,
          own && own->soundness == Soundness::whole ? "run.json and its checksum" : "run.json"};
}

std::vector<VerifiedFile> verify_folder(const fs::path& folder) {
  std::map<std::string, VerifiedFile> found;
  if (const fs::path record = folder / record_name; fs::exists(record)) {
    try {
      const Manifest manifest(folder);
      found[record.string()] = {
          record.string(), manifest.has_checksum() ? Soundness::whole : Soundness::without_checksum,
          manifest.has_checksum() ? "its checksum" : "has no checksum, but can be read"};
      for (const auto& [name, content] : manifest.contents())
        found[(folder / name).string()] = verify_recorded(folder, name, content);
    } catch (const Error& error) {
      found[record.string()] = {record.string(), Soundness::damaged, error.what()};
    }
  }
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (!entry.is_regular_file() || found.contains(path) || is_temporary(entry.path())) continue;
    if (const auto file = verify_file(path)) found[path] = *file;
  }
  std::vector<VerifiedFile> files;
  for (auto& [path, file] : found) files.push_back(std::move(file));
  return files;
}

}  // namespace

std::vector<VerifiedFile> verify(const fs::path& path) {
  if (fs::is_directory(path)) {
    auto files = verify_folder(path);
    if (files.empty()) throw Error("{}: has no file that could be verified", path.string());
    return files;
  }
  require_file(path);
  const auto file = verify_file(path.string());
  if (!file)
    throw Error(
        "{}: is {}, expected a network, a checkpoint, an HDF5 file of mac, a saved state or a run folder",
        path.string(), description(file_kind(path)));
  return {*file};
}

}  // namespace mac
