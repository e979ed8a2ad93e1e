// A table of settings: every key of a TOML table once, with the member it is stored in, what it may be and
// what it means. Reading, writing, messages and documentation come from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mac/config.hpp>
#include <string>
#include <type_traits>
#include <vector>

namespace mac {

/// Whole numbers from `low` to `high`.
struct WholeRange {
  std::int64_t low;
  std::int64_t high = 1'000'000'000;
};

/// What is said of a setting beside its value: "a number > 0", "an integer in [1, 64]", "`adamw`, `soap`".
std::string describe(const Range& range);
std::string describe(const WholeRange& range);
std::string describe(const std::vector<std::string>& choices);

/// Whether a setting is part of the text by which a result recognises what made it.
enum class InText {
  always,
  never,
  if_changed  // from its default only: texts from before it existed stay as they were
};

struct SettingOptions {
  InText in_text = InText::always;
  bool required = false;  // there is no default
};

template <class Plan>
struct Setting {
  std::string key, values, meaning;
  std::function<void(const ConfigTable&, Plan&)> read;
  std::function<std::string(const Plan&)> text;  // the value as TOML writes it
  SettingOptions options;
};

// How a member is read, and written as TOML. A missing key leaves the member as it is, its default.
void read_setting(const ConfigTable& table, const std::string& key, const Range& range, bool required,
                  double& value);
std::int64_t read_setting(const ConfigTable& table, const std::string& key, const WholeRange& range,
                          bool required, std::int64_t fallback);
std::string setting_text(double value);
std::string setting_text(std::int64_t value);
std::string setting_text(bool value);
std::string setting_text(const std::string& value);

/// `member` is a pointer to a member of the plan, or a function from the plan to a reference.
template <class Plan>
class SettingTable {
 public:
  template <class Member>
  SettingTable& number(std::string key, Member member, Range range, std::string meaning,
                       SettingOptions options = {}) {
    return add(
        std::move(key), describe(range), std::move(meaning), member,
        [=](const ConfigTable& table, const std::string& name, double& value) {
          read_setting(table, name, range, options.required, value);
        },
        [](double value) { return setting_text(value); }, options);
  }

  template <class Member>
  SettingTable& integer(std::string key, Member member, WholeRange range, std::string meaning,
                        SettingOptions options = {}) {
    return add(
        std::move(key), describe(range), std::move(meaning), member,
        [=](const ConfigTable& table, const std::string& name, auto& value) {
          value = static_cast<std::remove_reference_t<decltype(value)>>(
              read_setting(table, name, range, options.required, static_cast<std::int64_t>(value)));
        },
        [](auto value) { return setting_text(static_cast<std::int64_t>(value)); }, options);
  }

  template <class Member>
  SettingTable& flag(std::string key, Member member, std::string meaning) {
    return add(
        std::move(key), "`true`, `false`", std::move(meaning), member,
        [](const ConfigTable& table, const std::string& name, bool& value) {
          value = table.boolean_or(name, value);
        },
        [](bool value) { return setting_text(value); }, {});
  }

  template <class Member>
  SettingTable& string(std::string key, Member member, std::string values, std::string meaning,
                       SettingOptions options = {}) {
    return add(
        std::move(key), std::move(values), std::move(meaning), member,
        [](const ConfigTable& table, const std::string& name, std::string& value) {
          value = table.string_or(name, value);
        },
        [](const std::string& value) { return setting_text(value); }, options);
  }

  /// The names of an enum's values in their order, or the strings themselves.
  template <class Member>
  SettingTable& choice(std::string key, Member member, const std::vector<std::string>& names,
                       std::string meaning, SettingOptions options = {}) {
    const auto name_of = [names](const auto& value) -> std::string {
      if constexpr (std::is_convertible_v<decltype(value), std::string>)
        return value;
      else
        return names[static_cast<std::size_t>(value)];
    };
    return add(
        std::move(key), describe(names), std::move(meaning), member,
        [=](const ConfigTable& table, const std::string& name, auto& value) {
          using Value = std::remove_reference_t<decltype(value)>;
          const std::string chosen = table.choice_or(name, name_of(value), names);
          if constexpr (std::is_same_v<Value, std::string>)
            value = chosen;
          else
            value = static_cast<Value>(std::ranges::find(names, chosen) - names.begin());
        },
        [=](const auto& value) { return setting_text(name_of(value)); }, options);
  }

  void read(const ConfigTable& table, Plan& plan) const {
    for (const Setting<Plan>& setting : settings_) setting.read(table, plan);
  }

  /// "key = value" lines.
  std::string text(const Plan& plan) const {
    const Plan defaults;
    std::string text;
    for (const auto& setting : settings_) {
      const InText in_text = setting.options.in_text;
      const std::string value = setting.text(plan);
      if (in_text == InText::always || (in_text == InText::if_changed && value != setting.text(defaults)))
        text += setting.key + " = " + value + "\n";
    }
    return text;
  }

  const std::vector<Setting<Plan>>& settings() const { return settings_; }

 private:
  template <class Member, class Read, class Text>
  SettingTable& add(std::string key, std::string values, std::string meaning, Member member, Read read,
                    Text text, SettingOptions options) {
    Setting<Plan> setting{key, std::move(values), std::move(meaning), {}, {}, options};
    setting.read = [=](const ConfigTable& table, Plan& plan) { read(table, key, std::invoke(member, plan)); };
    setting.text = [=](const Plan& plan) { return text(std::invoke(member, plan)); };
    settings_.push_back(std::move(setting));
    return *this;
  }

  std::vector<Setting<Plan>> settings_;
};

/// A Markdown table: key, values, the value of each of the named plans, meaning.
template <class Plan>
std::string markdown(const SettingTable<Plan>& table,
                     const std::vector<std::pair<std::string, Plan>>& defaults) {
  std::string head = "| Key | Values |", line = "|---|---|", rows;
  for (const auto& [name, plan] : defaults) head += " " + name + " |", line += "---|";
  for (const auto& setting : table.settings()) {
    rows += "| `" + setting.key + "` | " + setting.values + " |";
    for (const auto& [name, plan] : defaults)
      rows += setting.options.required ? " (required) |" : " `" + setting.text(plan) + "` |";
    rows += " " + setting.meaning + " |\n";
  }
  return head + " Meaning |\n" + line + "---|\n" + rows;
}

}  // namespace mac
