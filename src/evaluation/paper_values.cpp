// The paper's own numbers, which are data/paper_values.json, embedded by cmake/paper_values.cmake.
#include "evaluation/paper_values.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <mac/evaluation.hpp>
#include <nlohmann/json.hpp>

namespace mac {

namespace {

std::vector<PaperTable> parse_tables() {
  std::vector<PaperTable> tables;
  const auto json = nlohmann::json::parse(paper_values_json);
  for (const auto& entry : json.at("tables")) {
    PaperTable table{entry.at("table"),
                     entry.at("label"),
                     entry.at("system"),
                     entry.at("split"),
                     entry.at("quantity"),
                     entry.at("interval"),
                     {}};
    for (const auto& [model, cells] : entry.at("models").items())
      for (const auto& [variable, cell] : cells.items()) {
        const auto number = [](const nlohmann::json& percent) {
          return percent.is_null() ? std::numeric_limits<double>::quiet_NaN() : percent.get<double>() / 100;
        };
        table.cells[{model, variable}] = {number(cell.at(0)), number(cell.at(1))};
      }
    tables.push_back(std::move(table));
  }
  return tables;
}

/// Whether the parameters are the paper's, which are every system's defaults.
bool has_papers_equations(const Experiment& experiment) {
  const ConfigTable defaults =
      ConfigTable::parse(fmt::format("name = \"{}\"", experiment.system->name()), "the paper");
  make_system(defaults);  // asks for every key, and gives its default
  return equations(experiment.config.table("system")) == equations(defaults);
}

}  // namespace

const std::vector<PaperTable>& paper_tables() {
  static const std::vector<PaperTable> tables = parse_tables();
  return tables;
}

std::optional<MeanStd> paper_value(const Experiment& experiment, std::string_view model,
                                   std::string_view split, std::string_view quantity,
                                   std::string_view interval, std::string_view variable) {
  for (const PaperTable& table : paper_tables()) {
    if (table.system != experiment.system->name() || table.split != split || table.quantity != quantity ||
        table.interval != interval)
      continue;
    const auto cell = table.cells.find({std::string(model), std::string(variable)});
    if (cell != table.cells.end() && has_papers_equations(experiment)) return cell->second;
  }
  return std::nullopt;
}

}  // namespace mac
