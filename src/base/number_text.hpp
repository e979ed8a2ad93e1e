// Numbers in text, the same in every locale: strtod and stod read "0.5" as 0 where the decimal sign is a
// comma.
#pragma once

#include <charconv>
#include <limits>
#include <string_view>

namespace mac {

/// The number that the whole text is, NaN where it is none.
inline double number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? value : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace mac
