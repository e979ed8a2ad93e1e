#include "training/search_account.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/factor_text.hpp"

namespace mac {

namespace {

using Json = nlohmann::json;

constexpr double failed = std::numeric_limits<double>::infinity();

/// null where the training failed.
double error_of(const Json& trial) {
  const Json& error = trial.at("error");
  return error.is_number() ? error.get<double>() : failed;
}

std::size_t steps_of(const Json& trial) { return trial.at("steps").get<std::size_t>(); }

std::vector<std::string> notes_of(const Json& search) {
  std::vector<std::string> notes;
  if (const auto horizon = search.value("horizon", Json()); horizon.is_number())
    notes.push_back(fmt::format(
        "errors are those of free rollouts of length {:g}{}", horizon.get<double>(),
        search.value("beyond", 0.0) > 0 ? "; of what comes later only the range was looked at" : ""));
  if (const auto equations = search.value("equations", std::string()); !equations.empty())
    notes.push_back("rolled out " + equations);
  if (const auto coupling = search.value("coupling", std::string()); !coupling.empty())
    notes.push_back(coupling);
  if (search.value("on_first_half", false))
    notes.emplace_back(
        "short trials learned from the first half of each sequence: what holds beyond it is seen in the "
        "second");
  if (const Json memoryless = search.value("memoryless", Json()); memoryless.is_object()) {
    const double with_memory = memoryless.value("with_memory", failed);
    notes.push_back(
        fmt::format("the network without memory is otherwise the best of the short trials, which has {}{}",
                    percent_or_failed(with_memory),
                    error_of(memoryless) < with_memory ? ": memory is not what this problem needs" : ""));
  }
  if (search.value("cut_by_budget", false))
    notes.emplace_back("the time budget left out the other trials, or shortened the whole training");
  return notes;
}

std::string compared(double error, double none) {
  return error < none ? fmt::format("{} times less than without a closure", factor_text(none / error))
                      : "no less than without a closure";
}

/// The chosen trial beside no closure, beside the next best settings, and beside longer trainings with its own.
std::string reason_of(const Json& search) {
  const Json& trials = search.at("trials");
  const Json& chosen = trials.at(search.at("chosen").get<std::size_t>());
  const std::string settings = settings_of(chosen);
  std::string reason =
      fmt::format("chosen: {}, {} steps, for the least error: {}, {}", settings, steps_of(chosen),
                  percent_or_failed(error_of(chosen)),
                  compared(error_of(chosen), search.at("error_without_closure").get<double>()));
  const Json *next = nullptr, *longer = nullptr;
  for (const Json& trial : trials) {
    if (settings_of(trial) != settings) {
      if (!next || error_of(trial) < error_of(*next)) next = &trial;
    } else if (steps_of(trial) > steps_of(chosen)) {
      longer = &trial;
    }
  }
  if (next)
    reason += fmt::format("; other settings came to {} at best ({}, {} steps)",
                          percent_or_failed(error_of(*next)), settings_of(*next), steps_of(*next));
  if (longer)
    reason += fmt::format("; {} steps with the chosen settings to {}", steps_of(*longer),
                          percent_or_failed(error_of(*longer)));
  return reason;
}

}  // namespace

std::string percent_or_failed(double error) {
  return error < failed ? fmt::format("{:.3g} %", 100 * error) : "failed";
}

std::string settings_of(const Json& trial) {
  // Models of earlier versions don't name the kind.
  std::string text = trial.contains("kind") ? trial.at("kind").get<std::string>() + ", " : "";
  text += fmt::format("noise {:.2g}, max_lr {:.2g}, width {}", trial.at("noise").get<double>(),
                      trial.at("max_lr").get<double>(), trial.at("d_model").get<std::size_t>());
  if (const auto states = trial.value("d_state", std::size_t{0}); states > 0)
    text += fmt::format(", state {}", states);
  if (trial.value("frame", std::string("none")) != "none") text += ", in a frame";
  if (const auto window = trial.value("window", std::size_t{0}); window > 0)
    text += fmt::format(", window {}", window);
  if (trial.value("rollouts", false))
    text += ", " + trial.value("rollouts_said", std::string("then rollouts"));
  return text;
}

std::optional<SearchAccount> account_of(const Json& search) {
  if (!search.at("error_without_closure").is_number()) return std::nullopt;
  SearchAccount account;
  account.judged_by = "free rollouts over the validation data";
  account.notes = notes_of(search);
  const auto chosen = search.at("chosen").get<std::size_t>();
  const Json& trials = search.at("trials");
  for (std::size_t i = 0; i < trials.size(); ++i)
    account.rows.push_back({i == chosen, settings_of(trials[i]), fmt::format("{}", steps_of(trials[i])),
                            percent_or_failed(error_of(trials[i]))});
  account.rows.push_back(
      {false, "no closure", "", percent_or_failed(search.at("error_without_closure").get<double>())});
  if (const Json memoryless = search.value("memoryless", Json()); memoryless.is_object())
    account.rows.push_back({false, "without memory (mlp)", "", percent_or_failed(error_of(memoryless))});
  account.reason = reason_of(search);
  account.warning = search.value("warning", std::string());
  return account;
}

std::string to_text(const SearchAccount& account) {
  std::string text = fmt::format("recipe auto: errors of {}\n", account.judged_by);
  for (const std::string& note : account.notes) text += fmt::format("  {}\n", note);
  for (const SearchAccount::Row& row : account.rows)
    text += fmt::format("{} {:>6}{} {:<60} {:>9}\n", row.chosen ? "*" : " ", row.steps,
                        row.steps.empty() ? "      " : " steps", row.settings, row.error);
  text += account.reason + "\n";
  if (!account.warning.empty()) text += fmt::format("warning: {}\n", account.warning);
  return text;
}

}  // namespace mac
