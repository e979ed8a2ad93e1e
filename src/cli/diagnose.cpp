// mac diagnose: experiment.toml -> what its full model does
#include <fmt/format.h>

#include <algorithm>
#include <mac/diagnose.hpp>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "parallel/ranks.hpp"

namespace mac::cli {

namespace {

using nlohmann::json;

std::string text(double value) { return fmt::format("{:.6g}", value); }
std::string text(const std::optional<double>& value) { return value ? text(*value) : "-"; }
json to_json(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

/// What a diagnosis gives: a table to print and the same as JSON.
struct Finding {
  Table table;
  json value;
};

Finding lyapunov(const DiagnosePlan& plan) {
  const LyapunovEstimate estimate = lyapunov_exponent(plan);
  return {
      {fmt::format("Maximum Lyapunov exponent (Benettin, over trajectories of length {:g})", plan.horizon),
       {"exponent", "standard error", "time counted", "trajectories"},
       {{text(estimate.exponent), text(estimate.standard_error), text(estimate.time),
         std::to_string(estimate.by_trajectory.size())}}},
      {{"exponent", estimate.exponent},
       {"standard_error", to_json(estimate.standard_error)},
       {"time", estimate.time},
       {"by_trajectory", estimate.by_trajectory}}};
}

Finding conservation(const DiagnosePlan& plan) {
  Finding result{{"Energy and conserved quantities (first trajectory; largest change of all)",
                  {"quantity", "conserved", "at start", "at end", "largest change", "relative"},
                  {}},
                 json::object()};
  for (const QuantityHistory& quantity : quantity_histories(plan)) {
    result.table.rows.push_back({quantity.name, quantity.conserved ? "yes" : "no",
                                 text(quantity.value.front()), text(quantity.value.back()),
                                 text(quantity.drift), text(quantity.relative)});
    result.value[quantity.name] = {{"conserved", quantity.conserved},
                                   {"time", quantity.time},
                                   {"value", quantity.value},
                                   {"largest_change", quantity.drift},
                                   {"largest_relative_change", to_json(quantity.relative)}};
  }
  return result;
}

std::optional<Finding> spectrum(const DiagnosePlan& plan) {
  const auto decay = spectrum_decay(plan);
  if (!decay) return std::nullopt;
  const std::size_t last = decay->magnitude[0].size() - 2;  // the Nyquist mode is zero
  std::vector<std::size_t> shown;
  for (std::size_t k = 1; k < last; k *= 2) shown.push_back(k);
  shown.push_back(last);
  Finding result{
      {"Spectrum: largest |theta_k|, its decay e^{-rate k}, and the upper third relative to all", {"t"}, {}},
      {{"time", decay->time}, {"magnitude", decay->magnitude}, {"rate", decay->rate}, {"tail", decay->tail}}};
  for (const std::size_t k : shown) result.table.header.push_back(fmt::format("k = {}", k));
  result.table.header.insert(result.table.header.end(), {"rate", "upper third"});
  for (std::size_t i = 0; i < decay->time.size(); ++i) {
    std::vector<std::string> row{text(decay->time[i])};
    for (const std::size_t k : shown) row.push_back(fmt::format("{:.2g}", decay->magnitude[i][k]));
    row.push_back(fmt::format("{:.3f}", decay->rate[i]));
    row.push_back(fmt::format("{:.2g}", decay->tail[i]));
    result.table.rows.push_back(std::move(row));
  }
  return result;
}

Finding convergence(const DiagnosePlan& plan) {
  const Convergence study = solver_convergence(plan);
  Finding result{
      {fmt::format("Solver against itself to t = {:g}: order {}, error at dt = {:g} about {:.2g}",
                   study.horizon, study.order ? fmt::format("{:.2f}", *study.order) : "lost in rounding",
                   plan.dt, study.error),
       {"dt", "difference to dt/2", "order"},
       {}},
      {{"horizon", study.horizon}, {"order", to_json(study.order)}, {"error", study.error}}};
  for (const ConvergenceLevel& level : study.levels) {
    result.table.rows.push_back({text(level.dt), fmt::format("{:.3g}", level.difference),
                                 level.order ? fmt::format("{:.2f}", *level.order) : "-"});
    result.value["levels"].push_back(
        {{"dt", level.dt}, {"difference", level.difference}, {"order", to_json(level.order)}});
  }
  return result;
}

Finding closure(const DiagnosePlan& plan) {
  Finding result{{"Closure (share: relative to the reduced right-hand side, root mean squares)",
                  {"closure", "mean", "deviation", "minimum", "maximum", "correlation time", "share"},
                  {}},
                 json::object()};
  for (const ClosureStatistics& s : closure_statistics(plan)) {
    result.table.rows.push_back({s.name, text(s.mean), text(s.deviation), text(s.minimum), text(s.maximum),
                                 text(s.correlation_time), fmt::format("{:.4f}", s.share)});
    result.value[s.name] = {{"mean", s.mean},
                            {"deviation", s.deviation},
                            {"minimum", s.minimum},
                            {"maximum", s.maximum},
                            {"correlation_time", to_json(s.correlation_time)},
                            {"share", s.share}};
  }
  return result;
}

struct Diagnosis {
  const char* name;
  std::optional<Finding> (*run)(const DiagnosePlan& plan);  // none: nothing to say about this system
};
const std::vector<Diagnosis> diagnoses{
    {"lyapunov", [](const DiagnosePlan& plan) { return std::optional(lyapunov(plan)); }},
    {"conservation", [](const DiagnosePlan& plan) { return std::optional(conservation(plan)); }},
    {"spectrum", spectrum},
    {"convergence", [](const DiagnosePlan& plan) { return std::optional(convergence(plan)); }},
    {"closure", [](const DiagnosePlan& plan) { return std::optional(closure(plan)); }}};

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const Diagnosis& diagnosis : diagnoses) result.emplace_back(diagnosis.name);
  return result;
}

/// The split named, or else test, or else the first one.
std::string chosen_split(const Experiment& experiment, const std::string& asked) {
  if (!asked.empty()) return asked;
  for (const SplitPlan& split : experiment.data.splits)
    if (split.name == "test" && !split.continues) return split.name;
  return experiment.data.splits.front().name;
}

}  // namespace

void add_diagnose(CLI::App& program) {
  struct Options {
    Common common;
    std::string experiment, split;
    std::vector<std::string> only;
    std::size_t trajectories = 20;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "diagnose", "Examine the full system: chaos, conservation, resolution, convergence, closure");
  command->footer(
      "Examples:\n"
      "  mac diagnose experiments/lorenz96.toml\n"
      "  mac diagnose experiments/kdv.toml --only conservation,spectrum --json kdv.json\n"
      "  mac diagnose memory mac.safetensors --data data.h5");
  command->add_option("experiment", options->experiment, "Experiment file (TOML)")->type_name("EXPERIMENT");
  command->add_option("--only", options->only, fmt::format("Some of {}", fmt::join(names(), ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(names()))
      ->type_name("NAMES");
  command->add_option("--split", options->split, "Whose trajectories (default: test)")->type_name("NAME");
  command->add_option("--trajectories", options->trajectories, "How many of them at most")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->type_name("N");
  add_common(*command, options->common, true);
  CLI::App* memory = add_diagnose_memory(*command);
  for (CLI::Option* option : command->get_options()) memory->excludes(option);  // it has its own
  command->callback([options, memory] {
    if (memory->parsed()) return;
    if (options->experiment.empty()) throw UsageError("mac diagnose needs an experiment file, or memory");
    const Experiment experiment = Experiment::read(options->experiment);
    const std::string split = chosen_split(experiment, options->split);
    DiagnosePlan plan = DiagnosePlan::of(experiment, split, options->trajectories);
    plan.threads = options->common.threads;
    plan.quiet = options->common.quiet;
    const bool printing = options->common.json != "-";

    json results{{"system", experiment.system->name()},
                 {"split", split},
                 {"trajectories", plan.trajectories},
                 {"horizon", plan.horizon},
                 {"dt", plan.dt}};
    if (printing)
      show("{}: {} trajectories of split {} to t = {:g}, dt = {:g}\n\n", experiment.system->name(),
           plan.trajectories, split, plan.horizon, plan.dt);
    for (const Diagnosis& diagnosis : diagnoses) {
      const auto& only = options->only;
      if (!only.empty() && std::find(only.begin(), only.end(), diagnosis.name) == only.end()) continue;
      const auto finding = diagnosis.run(plan);
      results[diagnosis.name] = finding ? finding->value : json(nullptr);
      if (finding && printing) show("{}\n", render(finding->table, TableFormat::text));
    }
    if (!options->common.json.empty() && ranks().root()) write_json(options->common.json, results);
  });
}

}  // namespace mac::cli
