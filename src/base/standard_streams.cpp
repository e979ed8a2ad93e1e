#include "base/standard_streams.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mac/error.hpp>

namespace mac {

void say_as_it_is(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

namespace {

/// Bytes of the UTF-8 character at the start of `text`; 0: there is none.
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t size = byte(0) < 0x80   ? 1
                           : byte(0) < 0xc2 ? 0
                           : byte(0) < 0xe0 ? 2
                           : byte(0) < 0xf0 ? 3
                           : byte(0) < 0xf5 ? 4
                                            : 0;
  if (size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return size;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    const std::size_t size = character_size(text);
    const bool control = size == 1 ? (byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f
                         : size == 2
                             ? byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0  // U+0080 to U+009F
                             : false;
    for (std::size_t i = 0; i < std::max<std::size_t>(size, 1); ++i)
      if (control || size == 0)
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
      else
        result += text[i];
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

std::string printable_line(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else
      result += c;
  }
  return result;
}

void open_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      // The lowest free descriptor is this one.
      const int null = ::open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);
      static_cast<void>(null);
    }
}

void finish_output() {
  const bool failed_before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) != 0 || failed_before)
    throw Error("standard output cannot be written: {}", std::strerror(errno));
}

std::size_t terminal_width() {
  if (::isatty(STDERR_FILENO) != 1) return 0;
  constexpr std::size_t usual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : usual;
}

}  // namespace mac
