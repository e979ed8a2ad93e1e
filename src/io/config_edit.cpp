#include "io/config_edit.hpp"

#include <toml++/toml.h>

#include <mac/error.hpp>
#include <sstream>
#include <vector>

namespace mac {

namespace {

toml::table parse_value(const std::string& value) {
  try {
    return toml::parse("value = " + value);
  } catch (const toml::parse_error&) {
    return toml::table{{"value", value}};
  }
}

/// The table below `table`; of an array of tables, the entry with that name.
toml::table* below(toml::table& table, const std::string& part, const std::string& next, bool& took_next) {
  took_next = false;
  if (!table.contains(part)) table.insert(part, toml::table{});
  if (toml::table* found = table[part].as_table()) return found;
  toml::array* const entries = table[part].as_array();
  if (!entries) return nullptr;
  for (toml::node& entry : *entries)
    if (toml::table* found = entry.as_table(); found && (*found)["name"].value_or(std::string()) == next) {
      took_next = true;
      return found;
    }
  return nullptr;
}

}  // namespace

std::string with_value(const std::string& text, const std::string& file, const std::string& key,
                       const std::string& value) {
  std::vector<std::string> parts;
  std::istringstream stream(key);
  for (std::string part; std::getline(stream, part, '.');) parts.push_back(part);
  if (parts.size() < 2) throw UsageError("{}: is no key of a table, as training.noise is", key);
  toml::table root = toml::parse(text);
  toml::table* table = &root;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    bool took_next = false;
    table = below(*table, parts[i], i + 1 < parts.size() ? parts[i + 1] : "", took_next);
    if (!table) throw UsageError("{}: {} has no table for {}", file, parts[i], key);
    if (took_next) ++i;
    if (i + 1 >= parts.size())
      throw UsageError("{}: is an entry of {}, not one of its keys", key, parts[i - 1]);
  }
  toml::table parsed = parse_value(value);
  table->insert_or_assign(parts.back(), std::move(*parsed["value"].node()));
  std::ostringstream out;
  out << root << "\n";
  return out.str();
}

}  // namespace mac
