#include "report/search_table.hpp"

#include <fmt/format.h>

#include <mac/error.hpp>
#include <nlohmann/json.hpp>

namespace mac::report {

namespace {

using Json = nlohmann::json;

/// A share, or null where the training failed.
std::string percent_or_failed(const Json& error) {
  return error.is_number() ? fmt::format("{:.3g} %", 100 * error.get<double>()) : "failed";
}

std::string settings(const Json& trial) {
  // Models of earlier versions don't name the kind.
  std::string text = trial.contains("kind") ? trial.at("kind").get<std::string>() + ", " : "";
  text += fmt::format("noise {:.2g}, max_lr {:.2g}, width {}", trial.at("noise").get<double>(),
                      trial.at("max_lr").get<double>(), trial.at("d_model").get<std::size_t>());
  if (const auto window = trial.value("window", std::size_t{0}); window > 0)
    text += fmt::format(", window {}", window);
  if (trial.value("rollouts", false))
    text += ", " + trial.value("rollouts_said", std::string("then rollouts"));
  return text;
}

Table table_of(const Json& search) {
  Table table{"Trials of recipe auto: error of free rollouts over the validation data",
              {"", "settings", "steps", "error"},
              {}};
  if (search.value("on_first_half", false)) table.title += "; short trials learned from the first half";
  const auto chosen = search.at("chosen").get<std::size_t>();
  const Json& trials = search.at("trials");
  for (std::size_t i = 0; i < trials.size(); ++i)
    table.rows.push_back({i == chosen ? "chosen" : "", settings(trials[i]),
                          fmt::format("{}", trials[i].at("steps").get<std::size_t>()),
                          percent_or_failed(trials[i].at("error"))});
  table.rows.push_back({"", "no closure", "", percent_or_failed(search.at("error_without_closure"))});
  if (const Json memoryless = search.value("memoryless", Json()); !memoryless.is_null())
    table.rows.push_back({"", "without memory (mlp)", "", percent_or_failed(memoryless.at("error"))});
  return table;
}

}  // namespace

std::optional<Table> search_table(const Model& model) {
  const auto found = model.provenance.find("search");
  if (found == model.provenance.end()) return std::nullopt;
  try {
    const Json search = Json::parse(found->second);
    if (!search.at("error_without_closure").is_number()) return std::nullopt;
    return table_of(search);
  } catch (const Json::exception& error) {
    throw Error("the metadata \"search\" of the model are not what recipe = \"auto\" writes: {}",
                error.what());
  }
}

}  // namespace mac::report
