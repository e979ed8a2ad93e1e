#include "base/standard_streams.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mac/error.hpp>

namespace mac {

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
