#include "base/factor_text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace mac {

std::string factor_text(double factor) {
  if (!(factor >= 999.5 && factor < 1e15)) return fmt::format("{:.3g}", factor);
  const double unit = std::pow(10, std::floor(std::log10(factor)) - 2);
  std::string digits = fmt::format("{:.0f}", std::round(factor / unit) * unit);
  for (std::size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, ",");
  return digits;
}

}  // namespace mac
