#include "data/import/byte_window.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mac/error.hpp>

namespace mac {

namespace {

constexpr std::size_t window_bytes = 1 << 18;

[[noreturn]] void fail_temporary(const std::string& what) {
  throw Error("{}: the temporary file for it cannot be written: {}; TMPDIR names another folder", what,
              std::strerror(errno));
}

}  // namespace

OpenFile temporary_file(const std::string& what) {
  const char* const folder = std::getenv("TMPDIR");
  std::string path = std::string(folder && *folder ? folder : "/tmp") + "/mac-import-XXXXXX";
  const int descriptor = mkstemp(path.data());
  OpenFile file(descriptor < 0 ? nullptr : fdopen(descriptor, "w+b"), std::fclose);
  if (!file) throw Error("{}: there is no temporary file {} for it: {}", what, path, std::strerror(errno));
  unlink(path.c_str());
  return file;
}

void write_temporary(std::FILE* file, std::size_t at, const void* bytes, std::size_t count,
                     const std::string& what) {
  // Going to another place writes what waits in the buffer: that fails on a full disk, too.
  if (ftello(file) != static_cast<off_t>(at) && fseeko(file, static_cast<off_t>(at), SEEK_SET) != 0)
    fail_temporary(what);
  if (std::fwrite(bytes, 1, count, file) != count) fail_temporary(what);
}

std::unique_ptr<ByteWindow> read_temporary(OpenFile file, const std::string& what) {
  if (std::fflush(file.get()) != 0) fail_temporary(what);
  return std::make_unique<ByteWindow>(what, file.release());
}

ByteWindow::ByteWindow(std::string path) : ByteWindow(path, std::fopen(path.c_str(), "rbe")) {}

ByteWindow::ByteWindow(std::string path, std::FILE* file) : path_(std::move(path)), file_(file, std::fclose) {
  if (!file_) throw Error("{}: cannot be read: {}", path_, std::strerror(errno));
  if (fseeko(file_.get(), 0, SEEK_END) != 0)
    throw Error("{}: cannot be read: {}", path_, std::strerror(errno));
  size_ = static_cast<std::size_t>(ftello(file_.get()));
}

void ByteWindow::read(std::size_t at, std::size_t count, void* out) {
  if (at > size_ || count > size_ - at)
    throw Error("{}: ends at byte {}, before what it announces at {}", path_, size_, at + count);
  char* to = static_cast<char*>(out);
  while (count > 0) {
    if (at < begin_ || at >= begin_ + window_.size()) fill(at);
    const std::size_t from = at - begin_, here = std::min(count, window_.size() - from);
    std::memcpy(to, window_.data() + from, here);
    to += here, at += here, count -= here;
  }
}

void ByteWindow::fill(std::size_t at) {
  begin_ = at;
  window_.resize(std::min(window_bytes, size_ - at));
  if (fseeko(file_.get(), static_cast<off_t>(at), SEEK_SET) != 0 ||
      std::fread(window_.data(), 1, window_.size(), file_.get()) != window_.size())
    throw Error("{}: cannot be read at byte {}: {}", path_, at, std::strerror(errno));
}

}  // namespace mac
