// Names and texts of files inside Markdown, where they must not become markup, cells or lines.
#pragma once

#include <string>
#include <string_view>

namespace mac {

/// One line; <, > and & as entities, |, ` and \\ with a backslash.
std::string markdown(std::string_view text);

/// One line: newlines become spaces, other control characters vanish.
std::string one_line(std::string_view text);

/// A block of code that its text cannot end.
std::string markdown_code(std::string_view text, std::string_view language);

}  // namespace mac
