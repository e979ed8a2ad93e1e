#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <mac/config.hpp>
#include <mac/error.hpp>
#include <map>
#include <set>
#include <sstream>

#include "base/nearest.hpp"
#include "io/input_file.hpp"
#include "io/settings.hpp"

namespace mac {

namespace detail {

/// The file a table came from; shared by all its tables.
struct ConfigFile {
  std::string name;
  std::string text;
  bool on_disk = false;
  toml::table root;
};

/// What was asked for in a table; shared by those that differ in numbers alone.
struct Asked {
  std::set<std::string, std::less<>> known;                  // keys somebody asked for
  std::map<std::string, std::string> fallbacks;              // the defaults they would take
  std::map<std::string, std::vector<ConfigTable>> children;  // tables handed out, checked as well
  bool all_known = false;
};

struct ConfigNode {
  std::shared_ptr<ConfigFile> file;
  const toml::table* table = nullptr;
  std::string path;
  std::shared_ptr<Asked> asked = std::make_shared<Asked>();
  std::map<std::string, toml::value<double>, std::less<>> numbers;  // in place of what the table has
};

}  // namespace detail

namespace {

using detail::ConfigNode;

std::string joined(const std::string& path, std::string_view key) {
  if (path.empty() || key.empty()) return path + std::string(key);
  return fmt::format("{}.{}", path, key);
}

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

/// The value under `key`, or null; the key counts as asked for.
const toml::node* look_up(ConfigNode& node, std::string_view key) {
  node.asked->known.emplace(key);
  if (const auto number = node.numbers.find(key); number != node.numbers.end()) return &number->second;
  return node.table->get(key);
}

// One spelling of a value, for values().
std::string spelling(double value) { return fmt::format("{}", value); }
std::string spelling(bool value) { return value ? "true" : "false"; }
std::string spelling(const std::string& value) { return fmt::format("\"{}\"", value); }
std::string spelling(const std::vector<std::string>& values) {
  std::vector<std::string> parts;
  for (const std::string& value : values) parts.push_back(spelling(value));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}
std::string spelling(const toml::node& node) {
  if (node.is_number()) return spelling(*node.value<double>());
  if (node.is_boolean()) return spelling(node.as_boolean()->get());
  if (node.is_string()) return spelling(node.as_string()->get());
  std::vector<std::string> parts;
  if (const toml::array* array = node.as_array())
    for (const toml::node& element : *array) parts.push_back(spelling(element));
  if (const toml::table* table = node.as_table())
    for (const auto& [key, value] : *table)
      parts.push_back(fmt::format("{} = {}", key.str(), spelling(value)));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

/// Whether the key is there; `fallback` is what its reader takes if it is not.
template <class T>
bool has_or(ConfigNode& node, std::string_view key, const T& fallback) {
  node.asked->fallbacks[std::string(key)] = spelling(fallback);
  return look_up(node, key) != nullptr;
}

/// The node's numbers, if it is an array of finite numbers and nothing else.
std::optional<std::vector<double>> number_array(const toml::node& node) {
  if (!node.is_array()) return std::nullopt;
  std::vector<double> values;
  for (const toml::node& element : *node.as_array()) {
    if (!element.is_number() || !std::isfinite(*element.value<double>())) return std::nullopt;
    values.push_back(*element.value<double>());
  }
  return values;
}

std::shared_ptr<ConfigNode> child_of(const ConfigNode& parent, const toml::table* table, std::string path) {
  auto child = std::make_shared<ConfigNode>();
  child->file = parent.file;
  child->table = table;
  child->path = std::move(path);
  return child;
}

}  // namespace

ConfigTable::ConfigTable(std::shared_ptr<detail::ConfigNode> node) : node_(std::move(node)) {}

ConfigTable ConfigTable::parse(std::string_view text, const std::string& file) {
  auto source = std::make_shared<detail::ConfigFile>();
  source->name = file;
  source->text = std::string(text);
  try {
    source->root = toml::parse(source->text, file);
  } catch (const toml::parse_error& error) {
    throw UsageError("{}:{}: not valid TOML: {}", file, error.source().begin.line, error.description());
  }
  auto node = std::make_shared<ConfigNode>();
  node->table = &source->root;
  node->file = std::move(source);
  return ConfigTable(std::move(node));
}

ConfigTable ConfigTable::read(const std::string& path) {
  ConfigTable table = parse(read_file(path), path);
  table.node_->file->on_disk = true;
  return table;
}

const std::string& ConfigTable::text() const { return node_->file->text; }
const std::string& ConfigTable::file() const { return node_->file->name; }
std::string ConfigTable::source() const { return node_->file->on_disk ? file() : std::string(); }
std::string ConfigTable::path() const { return node_->path; }
int ConfigTable::line() const { return static_cast<int>(node_->table->source().begin.line); }

void ConfigTable::fail(std::string_view key, const std::string& sentence) const {
  const toml::node* value = key.empty() ? nullptr : node_->table->get(key);
  const auto line = value ? value->source().begin.line : node_->table->source().begin.line;
  const std::string where = joined(node_->path, key);
  throw UsageError("{}:{}: {}{}{}", file(), std::max(line, decltype(line){1}), where,
                   where.empty() ? "" : ": ", sentence);
}

std::string ConfigTable::canonical() const {
  std::ostringstream text;
  text << *node_->table;  // toml++ keeps keys sorted
  return text.str();
}

std::map<std::string, std::string> ConfigTable::values() const {
  std::map<std::string, std::string> values = node_->asked->fallbacks;
  for (const auto& [key, value] : *node_->table) values[std::string(key.str())] = spelling(value);
  return values;
}

bool ConfigTable::has(std::string_view key) const { return look_up(*node_, key) != nullptr; }

std::vector<std::string> ConfigTable::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : *node_->table) names.emplace_back(key.str());
  return names;
}

bool ConfigTable::holds_list(std::string_view key) const {
  const toml::node* node = look_up(*node_, key);
  return node && node->is_array();
}

bool ConfigTable::holds_lists(std::string_view key) const {
  const toml::node* node = look_up(*node_, key);
  return node && node->is_array() && !node->as_array()->empty() && node->as_array()->get(0)->is_array();
}

bool ConfigTable::holds_table(std::string_view key) const {
  if (node_->numbers.contains(key)) return false;
  const toml::node* node = node_->table->get(key);
  return node && node->is_table();
}

std::string ConfigTable::formula(std::string_view key) const {
  const toml::node* node = look_up(*node_, key);
  if (node && node->is_number()) return fmt::format("{}", number(key));
  return string(key);
}

double ConfigTable::number(std::string_view key, Range range) const {
  const toml::node* node = look_up(*node_, key);
  if (!node) fail(key, fmt::format("is missing; expected {}", describe(range)));
  if (!node->is_number()) fail(key, fmt::format("is {}, expected {}", type_name(*node), describe(range)));
  const double value = *node->value<double>();
  const bool inside = value <= range.high && (range.exclusive_low ? value > range.low : value >= range.low);
  if (!inside || !std::isfinite(value)) fail(key, fmt::format("is {}, expected {}", value, describe(range)));
  return value;
}

std::int64_t ConfigTable::integer(std::string_view key, std::int64_t low, std::int64_t high) const {
  const std::string expected = "expected " + describe(WholeRange{low, high});
  const toml::node* node = look_up(*node_, key);
  if (!node) fail(key, "is missing; " + expected);
  if (!node->is_integer()) fail(key, fmt::format("is {}, {}", type_name(*node), expected));
  const std::int64_t value = node->as_integer()->get();
  if (value < low || value > high) fail(key, fmt::format("is {}, {}", value, expected));
  return value;
}

bool ConfigTable::boolean(std::string_view key) const {
  const toml::node* node = look_up(*node_, key);
  if (!node) fail(key, "is missing; expected true or false");
  if (!node->is_boolean()) fail(key, fmt::format("is {}, expected true or false", type_name(*node)));
  return node->as_boolean()->get();
}

std::string ConfigTable::string(std::string_view key) const {
  const toml::node* node = look_up(*node_, key);
  if (!node) fail(key, "is missing; expected a string");
  if (!node->is_string()) fail(key, fmt::format("is {}, expected a string", type_name(*node)));
  return node->as_string()->get();
}

std::string ConfigTable::choice(std::string_view key, const std::vector<std::string>& allowed) const {
  const std::string value = string(key);
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
  fail(key, fmt::format("is \"{}\", expected one of {}{}", value, fmt::join(allowed, ", "),
                        suggestion(value, allowed)));
}

std::vector<double> ConfigTable::numbers(std::string_view key, std::optional<std::size_t> count) const {
  const std::string expected =
      count ? fmt::format("expected {} numbers", *count) : "expected an array of numbers";
  const toml::node* node = look_up(*node_, key);
  if (!node) fail(key, "is missing; " + expected);
  const auto values = number_array(*node);
  if (!values) fail(key, fmt::format("is {}, {}", type_name(*node), expected));
  if (count && values->size() != *count)
    fail(key, fmt::format("has {} elements, {}", values->size(), expected));
  return *values;
}

std::vector<std::vector<double>> ConfigTable::number_lists(std::string_view key) const {
  const std::string expected = "expected an array of arrays of numbers";
  const toml::node* node = look_up(*node_, key);
  if (!node) fail(key, "is missing; " + expected);
  if (!node->is_array()) fail(key, fmt::format("is {}, {}", type_name(*node), expected));
  std::vector<std::vector<double>> lists;
  for (const toml::node& element : *node->as_array()) {
    const auto values = number_array(element);
    if (!values) fail(key, fmt::format("has an element that is {}, {}", type_name(element), expected));
    lists.push_back(*values);
  }
  return lists;
}

std::vector<std::string> ConfigTable::strings(std::string_view key) const {
  const toml::node* node = look_up(*node_, key);
  if (!node) fail(key, "is missing; expected an array of strings");
  if (!node->is_array()) fail(key, fmt::format("is {}, expected an array of strings", type_name(*node)));
  std::vector<std::string> values;
  for (const toml::node& element : *node->as_array()) {
    if (!element.is_string())
      fail(key, fmt::format("has an element that is {}, expected strings", type_name(element)));
    values.push_back(element.as_string()->get());
  }
  return values;
}

ConfigTable ConfigTable::table(std::string_view key) const {
  const toml::node* node = look_up(*node_, key);
  if (!node) fail("", fmt::format("the table [{}] is missing", joined(node_->path, key)));
  if (!node->is_table()) fail(key, fmt::format("is {}, expected a table", type_name(*node)));
  auto& handed_out = node_->asked->children[std::string(key)];
  if (handed_out.empty())
    handed_out.push_back(ConfigTable(child_of(*node_, node->as_table(), joined(node_->path, key))));
  std::map<std::string, double> below;
  for (const auto& [name, number] : node_->numbers)
    if (name.starts_with(std::string(key) + ".")) below[name.substr(key.size() + 1)] = number.get();
  return below.empty() ? handed_out.front() : handed_out.front().with_numbers(below);
}

std::vector<ConfigTable> ConfigTable::tables(std::string_view key) const {
  const toml::node* node = look_up(*node_, key);
  if (!node) return {};
  if (!node->is_array_of_tables())
    fail(key, fmt::format("is {}, expected tables [[{}]]", type_name(*node), joined(node_->path, key)));
  auto& handed_out = node_->asked->children[std::string(key)];
  if (handed_out.empty()) {
    for (const toml::node& element : *node->as_array()) {
      const std::string path = fmt::format("{}[{}]", joined(node_->path, key), handed_out.size());
      handed_out.push_back(ConfigTable(child_of(*node_, element.as_table(), path)));
    }
  }
  return handed_out;
}

double ConfigTable::number_or(std::string_view key, double fallback, Range range) const {
  return has_or(*node_, key, fallback) ? number(key, range) : fallback;
}

std::int64_t ConfigTable::integer_or(std::string_view key, std::int64_t fallback, std::int64_t low,
                                     std::int64_t high) const {
  return has_or(*node_, key, static_cast<double>(fallback)) ? integer(key, low, high) : fallback;
}

bool ConfigTable::boolean_or(std::string_view key, bool fallback) const {
  return has_or(*node_, key, fallback) ? boolean(key) : fallback;
}

std::string ConfigTable::string_or(std::string_view key, const std::string& fallback) const {
  return has_or(*node_, key, fallback) ? string(key) : fallback;
}

std::string ConfigTable::choice_or(std::string_view key, const std::string& fallback,
                                   const std::vector<std::string>& allowed) const {
  return has_or(*node_, key, fallback) ? choice(key, allowed) : fallback;
}

std::vector<std::string> ConfigTable::strings_or(std::string_view key,
                                                 const std::vector<std::string>& fallback) const {
  return has_or(*node_, key, fallback) ? strings(key) : fallback;
}

std::optional<ConfigTable> ConfigTable::table_if(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return table(key);
}

ConfigTable ConfigTable::with_numbers(const std::map<std::string, double>& numbers) const {
  auto node = std::make_shared<detail::ConfigNode>(*node_);
  for (const auto& [key, number] : numbers) node->numbers.insert_or_assign(key, toml::value<double>(number));
  return ConfigTable(std::move(node));
}

void ConfigTable::accept_all_keys() const { node_->asked->all_known = true; }

void ConfigTable::reject_unknown_keys() const {
  if (node_->asked->all_known) return;
  for (const auto& [key, value] : *node_->table) {
    if (node_->asked->known.contains(key.str())) continue;
    const std::vector<std::string> known(node_->asked->known.begin(), node_->asked->known.end());
    fail(key.str(), "unknown key" + suggestion(key.str(), known));
  }
  for (const auto& [key, tables] : node_->asked->children)
    for (const ConfigTable& table : tables) table.reject_unknown_keys();
}

}  // namespace mac
