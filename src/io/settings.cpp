#include "io/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mac {

std::string describe(const Range& range) {
  if (range.high < any_number.high)
    return fmt::format("a number in {}{}, {}]", range.exclusive_low ? "(" : "[", range.low, range.high);
  if (range.low > any_number.low)
    return fmt::format("a number {} {}", range.exclusive_low ? ">" : ">=", range.low);
  return "a number";
}

std::string describe(const WholeRange& range) {
  return range.high == INT64_MAX ? fmt::format("an integer >= {}", range.low)
                                 : fmt::format("an integer in [{}, {}]", range.low, range.high);
}

std::string describe(const std::vector<std::string>& choices) {
  return fmt::format("`{}`", fmt::join(choices, "`, `"));
}

void read_setting(const ConfigTable& table, const std::string& key, const Range& range, bool required,
                  double& value) {
  value = required ? table.number(key, range) : table.number_or(key, value, range);
}

std::int64_t read_setting(const ConfigTable& table, const std::string& key, const WholeRange& range,
                          bool required, std::int64_t fallback) {
  return required ? table.integer(key, range.low, range.high)
                  : table.integer_or(key, fallback, range.low, range.high);
}

std::string setting_text(double value) { return fmt::format("{}", value); }
std::string setting_text(std::int64_t value) { return fmt::format("{}", value); }
std::string setting_text(bool value) { return fmt::format("{}", value); }
std::string setting_text(const std::string& value) { return fmt::format("\"{}\"", value); }

}  // namespace mac
