// Standard output and standard error as they may be found: closed, full, or narrow.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace mac {

/// On standard error, with what steers a terminal.
void say_as_it_is(std::string_view text);

/// Text with its control characters (all but newlines and tabs) and what is no UTF-8 as \\x1b: names and metadata of files come from
/// anybody, and a terminal would obey them.
std::string printable(std::string_view text);

/// A value that has its place in a line: newlines and tabs as \\n and \\t as well, so that it cannot pass for another line.
std::string printable_line(std::string_view text);

/// Results on standard output, printable.
template <class... Args>
void show(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = printable(fmt::format(format, std::forward<Args>(args)...));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

/// A message on standard error, printable. One that cannot be written (a full disk under the log, a terminal that went
/// away) is lost and stops nothing.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_as_it_is(printable(fmt::format(format, std::forward<Args>(args)...)));
}

/// Streams that the caller closed lead to nowhere: the next file to be opened must not become one of them,
/// and messages its contents.
void open_closed_streams();

/// Throws Error unless all that was printed has reached standard output.
void finish_output();

/// Columns of the terminal behind standard error; 0 where it is none.
std::size_t terminal_width();

}  // namespace mac
