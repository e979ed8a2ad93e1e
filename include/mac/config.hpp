// Reading an experiment file with care: every key is asked for by name and type, and what nobody asked for is
// an error. Messages give file, line and key, and suggest the nearest valid key.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mac {

namespace detail {
struct ConfigNode;
}

/// Inclusive bounds of a number; `exclusive_low` excludes the lower one (a step must be > 0).
struct Range {
  double low;
  double high;
  bool exclusive_low = false;
};
inline constexpr Range any_number{-1e300, 1e300};
inline constexpr Range positive{0, 1e300, true};
inline constexpr Range non_negative{0, 1e300};
inline constexpr Range fraction{0, 1};

class ConfigTable {
 public:
  /// Parses text; `file` is only for messages.
  static ConfigTable parse(std::string_view text, const std::string& file);
  static ConfigTable read(const std::string& path);

  const std::string& text() const;  // the whole file, as read
  const std::string& file() const;
  std::string source() const;  // file() if it was read from there, empty for parsed text
  std::string path() const;    // "data.train"
  int line() const;

  /// The table in one fixed spelling: comments, order and white space don't count.
  std::string canonical() const;

  /// What somebody asked for, defaults included, in one spelling: what is left out and what is written out
  /// with the default's value don't differ, nor do 1 and 1.0.
  std::map<std::string, std::string> values() const;

  bool has(std::string_view key) const;
  std::vector<std::string> keys() const;         // in alphabetical order; none counts as asked for
  bool holds_list(std::string_view key) const;   // the value is an array
  bool holds_lists(std::string_view key) const;  // ... of arrays
  bool holds_table(std::string_view key) const;  // does not count as asking
  /// A formula: a string, or a number as text.
  std::string formula(std::string_view key) const;

  // Required values. A missing key, a wrong type or a value out of range throws UsageError.
  double number(std::string_view key, Range range = any_number) const;
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high) const;
  bool boolean(std::string_view key) const;
  std::string string(std::string_view key) const;
  std::string choice(std::string_view key, const std::vector<std::string>& allowed) const;
  std::vector<double> numbers(std::string_view key, std::optional<std::size_t> count = std::nullopt) const;
  std::vector<std::vector<double>> number_lists(std::string_view key) const;  // [[0, 1], [0, 2]]
  std::vector<std::string> strings(std::string_view key) const;
  ConfigTable table(std::string_view key) const;
  std::vector<ConfigTable> tables(std::string_view key) const;  // [[key]]; empty when absent

  // The same with a default for an absent key.
  double number_or(std::string_view key, double fallback, Range range = any_number) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t low,
                          std::int64_t high) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  std::string string_or(std::string_view key, const std::string& fallback) const;
  std::string choice_or(std::string_view key, const std::string& fallback,
                        const std::vector<std::string>& allowed) const;
  std::vector<std::string> strings_or(std::string_view key, const std::vector<std::string>& fallback) const;
  std::optional<ConfigTable> table_if(std::string_view key) const;

  /// The same table with numbers in place of what the file has there, by key; "parameters.F" is below it. What
  /// is asked for in one counts as asked for in the other.
  ConfigTable with_numbers(const std::map<std::string, double>& numbers) const;

  /// Whatever stands in this table and below is for somebody else: no key of it is unknown.
  void accept_all_keys() const;
  /// Throws for the first key that nobody has asked for, in this table and below.
  void reject_unknown_keys() const;

  /// UsageError about `key` (or about the table itself when empty): "file:line: path.key: sentence".
  [[noreturn]] void fail(std::string_view key, const std::string& sentence) const;

 private:
  explicit ConfigTable(std::shared_ptr<detail::ConfigNode> node);
  std::shared_ptr<detail::ConfigNode> node_;
};

}  // namespace mac
