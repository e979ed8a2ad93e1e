#include "report/training_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

namespace mac::report {

namespace {

using Settings = std::map<std::string, std::string>;

/// The lines "key = value" after each "[[stages]]". A file of an earlier version may have fewer keys.
std::vector<Settings> stages_of(const std::string& plan) {
  std::vector<Settings> stages;
  std::istringstream lines(plan);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find(" = ");
    if (line == "[[stages]]")
      stages.emplace_back();
    else if (!stages.empty() && equals != std::string::npos)
      stages.back()[line.substr(0, equals)] = line.substr(equals + 3);
  }
  return stages;
}

std::string unquoted(std::string text) {
  std::erase(text, '"');
  return text;
}

std::string loss_words(const Settings& stage) {
  const auto of = [&](const char* key) {
    const auto found = stage.find(key);
    return found == stage.end() ? std::string() : unquoted(found->second);
  };
  if (of("loss") != "rollout") return of("loss");
  return fmt::format("rollout over {} steps, {}", of("rollout_steps"), of("rollout_form"));
}

constexpr std::pair<const char*, const char*> columns[] = {
    {"steps", "steps"},         {"batch", "batch"},    {"max_lr", "largest learning rate"},
    {"optimiser", "optimiser"}, {"noise", "noise"},    {"augmentation", "augmentation"},
    {"window", "window"},       {"horizon", "horizon"}};

}  // namespace

Table stages_table(const std::string& model, const std::string& plan) {
  const std::vector<Settings> stages = stages_of(plan);
  Table table{fmt::format("Training of {}: stages", model), {"stage", "loss"}, {}};
  for (std::size_t s = 0; s < stages.size(); ++s)
    table.rows.push_back({fmt::format("{}", s + 1), loss_words(stages[s])});
  for (const auto& [key, title] : columns) {
    const bool zero = std::ranges::all_of(stages, [&key = key](const Settings& stage) {
      const auto found = stage.find(key);
      return found == stage.end() || found->second == "0";
    });
    if (zero) continue;  // nothing of the kind is used
    table.header.emplace_back(title);
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto found = stages[s].find(key);
      table.rows[s].push_back(found == stages[s].end() ? "-" : unquoted(found->second));
    }
  }
  return table;
}

}  // namespace mac::report
