#include "io/output_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mac/error.hpp>
#include <map>
#include <mutex>

#include "io/atomic_file.hpp"

namespace mac {

namespace fs = std::filesystem;

namespace {

/// "1234@host", what the holder wrote; empty where it could not.
std::string content_of(int fd) {
  char text[256];
  const ssize_t size = ::pread(fd, text, sizeof text, 0);
  return {text, size > 0 ? static_cast<std::size_t>(size) : 0};
}

/// "process 1234 on host"
std::string holder(const std::string& tag) {
  const std::size_t at = tag.find('@');
  if (at == std::string::npos) return "another process";
  return fmt::format("process {} on {}", tag.substr(0, at), tag.substr(at + 1));
}

bool is_at(int fd, const fs::path& path) {
  struct stat opened = {}, named = {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

void remove_leftovers(const fs::path& output, bool folder) {
  std::error_code ignored;
  const std::string stem = output.stem().string();
  const auto remove = [&](const fs::directory_entry& entry) {
    if (is_left_over(entry.path())) fs::remove(entry.path(), ignored);
  };
  if (folder) {
    for (const auto& entry : fs::recursive_directory_iterator(output, ignored)) remove(entry);
    return;
  }
  const fs::path parent = output.parent_path();
  for (const auto& entry : fs::directory_iterator(parent.empty() ? "." : parent, ignored))
    if (entry.path().filename().string().starts_with(stem)) remove(entry);
}

}  // namespace

class OutputLock::Held {
 public:
  Held(const fs::path& lock, const std::string& output) : lock_(lock) {
    for (;;) {
      fd_ = ::open(lock_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
      if (fd_ < 0) return;
      const bool taken = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
      // Without locks in this file system the holder's own word counts.
      const bool held = taken ? false : errno == EWOULDBLOCK || !is_gone(content_of(fd_));
      if (held) {
        const std::string tag = content_of(fd_);
        ::close(fd_);
        throw Error("{}: is being written by {} (if that is not so, remove {})", output, holder(tag),
                    lock_.string());
      }
      if (is_at(fd_, lock_)) break;
      ::close(fd_);  // the holder removed it meanwhile
    }
    const std::string tag = process_tag();
    // Only for the message: a lock without it holds as well.
    if (::ftruncate(fd_, 0) == 0) static_cast<void>(::pwrite(fd_, tag.data(), tag.size(), 0) < 0);
  }
  ~Held() {
    if (fd_ < 0) return;
    ::unlink(lock_.c_str());
    ::close(fd_);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  fs::path lock_;
  int fd_ = -1;
};

OutputLock::OutputLock(const fs::path& given) {
  const fs::path output = behind_links(given);  // two names of one file have one lock
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Held>> all;
  std::error_code unknown;  // what is wrong with the output shows when it is written
  const bool folder = fs::is_directory(output, unknown);
  const fs::path lock = folder ? output / "run.lock" : fs::path(output.string() + ".lock");
  const std::lock_guard guard(mutex);
  const fs::path name = fs::weakly_canonical(lock, unknown);
  std::weak_ptr<Held>& known = all[unknown ? lock.string() : name.string()];
  held_ = known.lock();
  if (held_) return;
  held_ = std::make_shared<Held>(lock, given.string());
  known = held_;
  remove_leftovers(output, folder);
}

OutputLock::~OutputLock() = default;

}  // namespace mac
