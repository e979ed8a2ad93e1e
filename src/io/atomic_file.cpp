#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <mac/error.hpp>

namespace mac {

namespace fs = std::filesystem;

namespace {

/// Closes itself.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string reason() { return std::strerror(errno); }

constexpr std::string_view temporary_mark = ".partial-";

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

/// What a file that was not finished says of its writer; empty: it is none.
std::string tag_in(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t at = name.rfind(temporary_mark);
  return at == std::string::npos ? std::string() : name.substr(at + temporary_mark.size());
}

}  // namespace

std::string behind_links(fs::path path) {
  constexpr int most = 40;  // as the kernel has it
  const fs::path first = path;
  for (int links = 0; links <= most; ++links) {
    std::error_code no_link;
    const fs::path target = fs::read_symlink(path, no_link);
    if (no_link) return path.string();
    path = path.parent_path() / target;
  }
  throw UsageError("{}: is a link that leads round in circles", first.string());
}

AtomicFile::AtomicFile(const fs::path& final_path)
    : final_(behind_links(final_path)), temporary_(final_ + std::string(temporary_mark) + process_tag()) {
  if (final_.empty()) throw UsageError("the name of the output file is empty");
  std::error_code failure;  // shows when the file is opened
  const fs::file_status there = fs::status(final_path, failure);
  if (fs::is_directory(there)) throw UsageError("{}: is a folder, expected the name of a file", final_);
  if (fs::exists(there) && !fs::is_regular_file(there))
    throw UsageError("{}: is a device or a pipe, expected the name of a file", final_path.string());
  remove_left_over(final_);
  const Descriptor file(temporary_, O_CREAT | O_WRONLY | O_TRUNC);
  if (!file.is_open()) throw Error("{}: cannot be written: {}", final_, reason());
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (!committed_) fs::remove(temporary_, ignored);
}

void AtomicFile::commit() {
  {
    const Descriptor file(temporary_, O_RDONLY);
    if (!file.is_open() || ::fsync(file.get()) != 0)
      throw Error("{}: cannot be synced: {}", final_, reason());
  }
  std::error_code failure;
  fs::rename(temporary_, final_, failure);
  if (failure) throw Error("{}: cannot be put in place: {}", final_, failure.message());
  committed_ = true;
  // The rename itself reaches the disk with its folder; not every file system allows this, so no error.
  const fs::path parent = fs::path(final_).parent_path();
  const Descriptor folder(parent.empty() ? "." : parent.string(), O_RDONLY | O_DIRECTORY);
  if (folder.is_open()) ::fsync(folder.get());
}

std::string process_tag() { return fmt::format("{}@{}", ::getpid(), host_name()); }

namespace {

/// Ended, but not yet waited for: a container whose first process does not wait for others' children keeps them like this.
bool is_dead(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // "1234 (name) Z ..."
  return name_end != std::string::npos && text.substr(name_end, 3) == ") Z";
}

}  // namespace

bool is_gone(std::string_view tag) {
  pid_t process = 0;
  const auto [end, error] = std::from_chars(tag.data(), tag.data() + tag.size(), process);
  if (error != std::errc() || process <= 0) return false;
  const std::string_view host = tag.substr(static_cast<std::size_t>(end - tag.data()));
  if (!host.empty() && host != "@" + host_name()) return false;  // earlier versions wrote the number alone
  return (::kill(process, 0) != 0 && errno == ESRCH) || is_dead(process);
}

bool is_temporary(const fs::path& path) { return !tag_in(path).empty() || path.extension() == ".lock"; }

bool is_left_over(const fs::path& path) { return is_gone(tag_in(path)); }

void remove_left_over(const fs::path& of) {
  std::error_code ignored;
  const fs::path folder = of.parent_path();
  const std::string begins = of.filename().string() + std::string(temporary_mark);
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored))
    if (entry.path().filename().string().starts_with(begins) && is_left_over(entry.path()))
      fs::remove_all(entry.path(), ignored);
}

void make_folder(const fs::path& path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  if (failure) throw Error("{}: cannot be made: {}", path.string(), failure.message());
}

void check_writable(const fs::path& path) { const AtomicFile attempt(path); }

void write_file_atomically(const fs::path& path, std::string_view bytes) {
  AtomicFile file(path);
  {
    const Descriptor out(file.temporary_path(), O_WRONLY);
    if (!out.is_open()) throw Error("{}: cannot be written: {}", path.string(), reason());
    while (!bytes.empty()) {
      const ssize_t written = ::write(out.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw Error("{}: cannot be written: {}", path.string(), reason());
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  file.commit();
}

}  // namespace mac
