#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <mac/error.hpp>
#include <mac/system_family.hpp>

#include "base/nearest.hpp"

namespace mac {

namespace {

constexpr std::size_t most_of_a_grid = 1'000'000;
const std::vector<std::string>& law_names() {
  static const std::vector<std::string> names{"uniform", "log_uniform", "list", "grid"};
  return names;
}

bool is_text(const ConfigTable& system) { return system.has("kind"); }

/// Where a parameter stands in [system].
std::string key_of(const ConfigTable& system, const std::string& name) {
  return is_text(system) ? "parameters." + name : name;
}

std::vector<double> read_ends(const ConfigTable& table, const char* law) {
  const std::vector<double> ends = table.numbers(law, 2);
  if (!(ends[0] < ends[1]))
    table.fail(law, fmt::format("is [{}, {}], expected the lower end first", ends[0], ends[1]));
  return ends;
}

}  // namespace

double ParameterLaw::low() const { return *std::ranges::min_element(numbers); }
double ParameterLaw::high() const { return *std::ranges::max_element(numbers); }
double ParameterLaw::middle() const {
  switch (kind) {
    case Kind::uniform:
      return (numbers[0] + numbers[1]) / 2;
    case Kind::log_uniform:
      return std::sqrt(numbers[0]) * std::sqrt(numbers[1]);
    case Kind::list:
      break;
  }
  return numbers[numbers.size() / 2];
}

bool holds_law(const ConfigTable& table, const std::string& key) {
  if (!table.holds_table(key)) return false;
  const std::vector<std::string> inside = table.table(key).keys();
  // A law misspelt is one, too: its error names the nearest.
  return std::ranges::any_of(inside, [&](const std::string& name) {
    return std::ranges::find(law_names(), name) != law_names().end() ||
           (inside.size() == 1 && !suggestion(name, law_names()).empty());
  });
}

ParameterLaw read_law(const ConfigTable& table, const std::string& key) {
  if (!table.holds_table(key)) return ParameterLaw::of(table.number(key));
  const ConfigTable law = table.table(key);
  const std::vector<std::string> inside = law.keys();
  const auto one_of = [] {
    return fmt::format("expected one of {} in it, as {{ uniform = [low, high] }}",
                       fmt::join(law_names(), ", "));
  };
  for (const std::string& name : inside)
    if (std::ranges::find(law_names(), name) == law_names().end())
      table.fail(key, fmt::format("has \"{}\", {}{}", name, one_of(), suggestion(name, law_names())));
  if (inside.size() != 1) table.fail(key, fmt::format("has {} laws, {}", inside.size(), one_of()));
  using Kind = ParameterLaw::Kind;
  if (law.has("uniform")) return {Kind::uniform, read_ends(law, "uniform")};
  if (law.has("log_uniform")) {
    const std::vector<double> ends = read_ends(law, "log_uniform");
    if (!(ends[0] > 0)) law.fail("log_uniform", fmt::format("starts at {}, expected above 0", ends[0]));
    return {Kind::log_uniform, ends};
  }
  if (law.has("list")) {
    const std::vector<double> numbers = law.numbers("list");
    if (numbers.empty()) law.fail("list", "is empty, expected a number");
    return {Kind::list, numbers};
  }
  const std::vector<double> grid = law.numbers("grid", 3);
  const double n = grid[2];
  if (!(grid[0] < grid[1]) || n != std::round(n) || n < 2 || n > static_cast<double>(most_of_a_grid))
    law.fail("grid", fmt::format("is [{}, {}, {}], expected [low, high, how many] with 2 to {}", grid[0],
                                 grid[1], n, most_of_a_grid));
  std::vector<double> numbers;
  for (double i = 0; i < n; ++i)
    numbers.push_back(i + 1 == n ? grid[1] : grid[0] + (grid[1] - grid[0]) * i / (n - 1));
  return {Kind::list, numbers};
}

std::vector<double> draw_parameters(std::span<const ParameterLaw> laws, std::uint64_t seed, Purpose purpose,
                                    std::size_t index) {
  const auto parameters_purpose = static_cast<Purpose>(static_cast<std::uint32_t>(purpose) +
                                                       static_cast<std::uint32_t>(Purpose::train_parameters));
  RandomStream random(seed, parameters_purpose, static_cast<std::uint32_t>(index));
  std::size_t turn = index;
  std::vector<double> values;
  for (const ParameterLaw& law : laws) {
    const std::vector<double>& n = law.numbers;
    switch (law.kind) {
      case ParameterLaw::Kind::list:
        values.push_back(n[turn % n.size()]);
        turn /= n.size();
        break;
      case ParameterLaw::Kind::uniform:
        values.push_back(random.uniform(n[0], n[1]));
        break;
      case ParameterLaw::Kind::log_uniform:
        values.push_back(std::clamp(std::exp(random.uniform(std::log(n[0]), std::log(n[1]))), n[0], n[1]));
        break;
    }
  }
  return values;
}

SystemFamily::SystemFamily(ConfigTable table, std::vector<std::string> names,
                           std::shared_ptr<const System> middle)
    : table_(std::move(table)), names_(std::move(names)), middle_(std::move(middle)) {}

std::shared_ptr<const System> SystemFamily::at(std::span<const double> values) const {
  if (!middle_->is_known()) return middle_;  // it has names alone, and they are all alike
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const System>& system = made_[{values.begin(), values.end()}];
  if (system) return system;
  std::map<std::string, double> numbers;
  for (std::size_t i = 0; i < names_.size(); ++i) numbers[names_[i]] = values[i];
  std::shared_ptr<const System> made = make_system(with_parameters(table_, numbers), mac::describe(*middle_));
  if (made->resolved_names() != middle_->resolved_names() ||
      made->closure_names() != middle_->closure_names() || made->full_size() != middle_->full_size())
    table_.fail(names_.front(), "changes how many variables there are: such a parameter cannot vary");
  return system = std::move(made);
}

std::map<std::string, ParameterLaw> system_laws(const ConfigTable& system) {
  std::map<std::string, ParameterLaw> laws;
  const auto text_parameters = is_text(system) ? system.table_if("parameters") : std::nullopt;
  if (is_text(system) && !text_parameters) return laws;
  const ConfigTable& table = text_parameters ? *text_parameters : system;
  for (const std::string& name : table.keys())
    if (text_parameters ? table.holds_table(name) : holds_law(table, name))
      laws[name] = read_law(table, name);
  return laws;
}

ConfigTable with_parameters(const ConfigTable& system, const std::map<std::string, double>& values) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : values) numbers[key_of(system, name)] = value;
  return system.with_numbers(numbers);
}

ConfigTable middle_of(const ConfigTable& system) {
  std::map<std::string, double> middles;
  for (const auto& [name, law] : system_laws(system)) middles[name] = law.middle();
  return middles.empty() ? system : with_parameters(system, middles);
}

std::optional<double> parameter_in(const ConfigTable& system, const std::string& name) {
  const auto table = is_text(system) ? system.table_if("parameters") : std::optional(system);
  if (!table) return std::nullopt;
  const auto values = table->values();
  const auto found = values.find(name);
  if (found == values.end()) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(found->second.c_str(), &end);
  if (*end != '\0' || end == found->second.c_str()) return std::nullopt;
  return number;
}

}  // namespace mac
