#include "evaluation/escape.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mac {

std::string one_line(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\n' || c == '\t')
      result += ' ';
    else if (static_cast<unsigned char>(c) >= ' ' && c != '\x7f')
      result += c;
  }
  return result;
}

std::string markdown(std::string_view text) {
  std::string result;
  for (const char c : one_line(text)) switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '|':
      case '`':
      case '\\':
        result += '\\';
        [[fallthrough]];
      default:
        result += c;
    }
  return result;
}

std::string markdown_code(std::string_view text, std::string_view language) {
  std::size_t longest = 2, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  return fmt::format("{}{}\n{}{}{}\n", fence, language, text, text.ends_with('\n') ? "" : "\n", fence);
}

}  // namespace mac
