// A small check that a page is well-formed: every element is closed, in order.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace mac::test {

inline testing::AssertionResult well_formed(std::string_view page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string_view::npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    if (end == std::string_view::npos) return testing::AssertionFailure() << "a tag without an end";
    const std::string_view tag = page.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string_view::npos) return testing::AssertionFailure() << "< inside of <" << tag;
    if (tag.starts_with("!DOCTYPE") || tag.ends_with('/')) continue;
    const bool closing = tag.starts_with('/');
    const std::string name(tag.substr(closing, tag.find_first_of(" \n/", 1) - closing));
    if (!closing) {
      open.push_back(name);
    } else if (open.empty() || open.back() != tag.substr(1)) {
      return testing::AssertionFailure()
             << "</" << tag.substr(1) << "> closes " << (open.empty() ? "nothing" : open.back());
    } else {
      open.pop_back();
    }
  }
  if (!open.empty()) return testing::AssertionFailure() << open.back() << " is not closed";
  return testing::AssertionSuccess();
}

inline std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace mac::test
