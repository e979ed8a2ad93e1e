// Reading a file at any place through a window of it that is kept: many short reads near each other cost one call.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace mac {

using OpenFile = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

class ByteWindow {
 public:
  /// Error, naming the file, if it cannot be opened.
  explicit ByteWindow(std::string path);
  /// A temporary file that is open already; messages name `path`.
  ByteWindow(std::string path, std::FILE* file);

  std::size_t size() const { return size_; }
  /// Error, naming the file, where it ends before.
  void read(std::size_t at, std::size_t count, void* out);

 private:
  void fill(std::size_t at);

  std::string path_;
  OpenFile file_;
  std::size_t size_ = 0, begin_ = 0;
  std::vector<char> window_;
};

/// A new file without a name, in the folder TMPDIR or /tmp, that goes with its handle; Error, naming `what` it is for, if
/// there can be none.
OpenFile temporary_file(const std::string& what);
/// From byte `at` on. Throws Error, naming `what` the file is for, where the disk is full.
void write_temporary(std::FILE* file, std::size_t at, const void* bytes, std::size_t count,
                     const std::string& what);
/// What was written, for reading; Error as above where the last of it does not reach the file.
std::unique_ptr<ByteWindow> read_temporary(OpenFile file, const std::string& what);

}  // namespace mac
