// Standard output and standard error as they may be found: closed, full, or narrow.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace mac {

/// A message on standard error. One that cannot be written (a full disk under the log, a terminal that went
/// away) is lost and stops nothing.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

/// Streams that the caller closed lead to nowhere: the next file to be opened must not become one of them,
/// and messages its contents.
void open_closed_streams();

/// Throws Error unless all that was printed has reached standard output.
void finish_output();

/// Columns of the terminal behind standard error; 0 where it is none.
std::size_t terminal_width();

}  // namespace mac
