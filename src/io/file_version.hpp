// What cannot stay the same when a file is written, for what need not be looked at twice.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <mac/error.hpp>
#include <mutex>
#include <set>
#include <string>
#include <tuple>

namespace mac {

/// Place, size and time of the last change.
using FileVersion = std::tuple<dev_t, ino_t, off_t, time_t, long>;

inline FileVersion version_of(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) throw Error("{}: cannot be read: {}", path, std::strerror(errno));
  return {status.st_dev, status.st_ino, status.st_size, status.st_ctim.tv_sec, status.st_ctim.tv_nsec};
}

/// Those that were found in order; for any number of threads.
class SeenFiles {
 public:
  bool contains(const FileVersion& file) const {
    const std::lock_guard lock(mutex_);
    return files_.contains(file);
  }
  void insert(const FileVersion& file) {
    const std::lock_guard lock(mutex_);
    files_.insert(file);
  }

 private:
  mutable std::mutex mutex_;
  std::set<FileVersion> files_;
};

}  // namespace mac
