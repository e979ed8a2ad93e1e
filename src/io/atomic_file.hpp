// A file that appears under its name only when it is complete.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace mac {

/// Write to temporary_path(), then commit(): the data are synced and renamed to the final name. Without a
/// commit (an exception, an interrupt) the temporary is removed and the old file, if any, stays as it was.
class AtomicFile {
 public:
  /// Throws Error if the folder does not exist or cannot be written, UsageError for a folder, a device or a
  /// pipe. Of a link the file behind it is written.
  explicit AtomicFile(const std::filesystem::path& final_path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::string& path() const { return final_; }
  const std::string& temporary_path() const { return temporary_; }
  void commit();

 private:
  std::string final_;
  std::string temporary_;
  bool committed_ = false;
};

/// Where a link leads, so that it stays one: what is renamed replaces the name itself. Another path is itself.
/// Throws UsageError for a link that leads to itself.
std::string behind_links(std::filesystem::path path);

/// "1234@host": this process, in names of unfinished files and in locks.
std::string process_tag();
/// Whether the process of such a tag ran on this host and is there no more.
bool is_gone(std::string_view tag);
/// Whether the name is that of an unfinished file or of a lock.
bool is_temporary(const std::filesystem::path& path);
/// Whether it is an unfinished file of a process that is gone.
bool is_left_over(const std::filesystem::path& path);

/// Removes what processes that are gone left of this file or folder.
void remove_left_over(const std::filesystem::path& of);

/// A folder for files to be written into, with those above it. Throws Error, naming it, if it cannot be made.
void make_folder(const std::filesystem::path& path);

/// Throws as AtomicFile does, for what takes long to make: that it can be written is known before.
void check_writable(const std::filesystem::path& path);

/// The whole of `bytes` as a file, atomically.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

}  // namespace mac
