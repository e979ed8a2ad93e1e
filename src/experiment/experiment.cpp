#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <mac/experiment.hpp>
#include <mac/linear_part.hpp>
#include <map>
#include <set>

#include "experiment/data_settings.hpp"
#include "systems/equations/formulas.hpp"

namespace mac {

namespace {

constexpr std::int64_t many = 1'000'000'000;

/// horizon / step as a whole number; anything else is the user's mistake.
std::size_t whole_intervals(const ConfigTable& table, std::string_view key, double horizon, double step) {
  const double count = std::round(horizon / step);
  // dt and horizon are decimal numbers in binary: allow their rounding, not a missing fraction of a step.
  if (count < 1 || std::abs(count * step - horizon) > 1e-9 * horizon)
    table.fail(key, fmt::format("is {}, which is not a multiple of dt * stride = {}", horizon, step));
  if (count > static_cast<double>(many)) table.fail(key, "is more than a billion saved steps");
  return static_cast<std::size_t>(count);
}

struct SplitKind {
  const char* name;
  Purpose purpose;
};
constexpr SplitKind split_kinds[] = {{"train", Purpose::train_data},
                                     {"validation", Purpose::validation_data},
                                     {"test", Purpose::test_data},
                                     {"ood", Purpose::ood_data},
                                     {"statistics", Purpose::statistics_data}};

}  // namespace

bool is_rolled_out(std::string_view split) {
  return split == "test" || split == "ood" || split == "statistics";
}

namespace {

/// The parameters that vary: by a law in [system], or because a split has its own.
std::vector<std::string> varying_names(const ConfigTable& root) {
  std::set<std::string> names;
  for (const auto& [name, law] : system_laws(root.table("system"))) names.insert(name);
  const auto data = root.table_if("data");
  for (const SplitKind& kind : split_kinds)
    if (const auto split = data ? data->table_if(kind.name) : std::nullopt)
      if (const auto own = split->table_if("system"))
        for (const std::string& name : own->keys()) names.insert(name);
  return {names.begin(), names.end()};
}

std::shared_ptr<const SystemFamily> make_family(const ConfigTable& root,
                                                const std::shared_ptr<const System>& system) {
  const std::vector<std::string> names = varying_names(root);
  if (names.empty()) return nullptr;
  return std::make_shared<SystemFamily>(root.table("system"), names, system);
}

/// Throws UsageError unless there is a system for the value, and the solver is stable. `like`: the system at the
/// middle, so that an experiment inside a file loads no plug-in here either.
void check_value(const ConfigTable& system, const SystemDescription& like, const ConfigTable& data, double dt,
                 const std::string& name, double value) {
  const auto made = make_system(with_parameters(middle_of(system), {{name, value}}), like);
  if (const auto limit = made->largest_stable_dt(); limit && dt > *limit)
    data.fail("dt", fmt::format("is {}, but the {} solver is stable only up to {:.3g} at {} = {}", dt,
                                made->name(), *limit, name, value));
}

/// The laws of a split: its own, or those of [system], or the number there.
std::vector<ParameterLaw> read_laws(const ConfigTable& root, const ConfigTable& split, double dt,
                                    const SystemFamily* family, const System& like) {
  const auto own = split.table_if("system");
  if (!family) return {};
  const ConfigTable system = root.table("system");
  const bool is_known = like.is_known();
  const SystemDescription description = describe(like);
  const std::map<std::string, ParameterLaw> common = system_laws(system);
  std::vector<ParameterLaw> laws;
  for (const std::string& name : family->names()) {
    const auto law = common.find(name);
    const auto number = parameter_in(system, name);
    if (own && own->has(name)) {
      if (law == common.end() && !number && is_known)
        own->fail(name, "is no number of [system]: it cannot vary");
      laws.push_back(read_law(*own, name));
    } else if (law != common.end()) {
      laws.push_back(law->second);
    } else {
      laws.push_back(ParameterLaw::of(number.value_or(std::nan(""))));
    }
    if (!is_known) continue;
    for (const double value : {laws.back().low(), laws.back().high()}) {
      if (!own || !own->has(name)) {
        check_value(system, description, root.table("data"), dt, name, value);
        continue;
      }
      try {
        check_value(system, description, root.table("data"), dt, name, value);
      } catch (const UsageError& error) {
        own->fail(name, fmt::format("is not possible: {}", error.what()));
      }
    }
  }
  return laws;
}

SplitPlan read_split(const ConfigTable& table, const SplitKind& kind, const DataPlan& data,
                     const System& system) {
  SplitPlan split;
  split.name = kind.name;
  split.purpose = kind.purpose;
  split.horizon = table.number("horizon", positive);
  split.intervals = whole_intervals(table, "horizon", split.horizon, data.closure_step());

  if (table.has("continues")) {
    std::vector<std::string> earlier;
    for (const SplitPlan& other : data.splits) earlier.push_back(other.name);
    if (earlier.empty()) table.fail("continues", "there is no earlier split to continue");
    split.continues = table.choice("continues", earlier);
    if (table.has("initial"))
      table.fail("initial", "a split that continues another has no initial condition");
    if (table.has("system"))
      table.fail("system", "a split that continues another has the parameters of that one");
    const auto parent = std::find_if(data.splits.begin(), data.splits.end(),
                                     [&](const SplitPlan& other) { return other.name == *split.continues; });
    split.trajectories = static_cast<std::size_t>(
        table.integer_or("trajectories", static_cast<std::int64_t>(parent->trajectories), 1,
                         static_cast<std::int64_t>(parent->trajectories)));
    return split;
  }

  const auto initial = table.table_if("initial");
  split.initial = system.initial_condition(initial ? &*initial : nullptr);
  split.initial_table = initial;
  if (const auto count = split.initial->count()) {
    split.trajectories = static_cast<std::size_t>(table.integer_or(
        "trajectories", static_cast<std::int64_t>(*count), 1, static_cast<std::int64_t>(*count)));
  } else if (!system.is_known()) {  // it may have been a list of states, of unknown length
    split.trajectories = static_cast<std::size_t>(table.integer_or("trajectories", 1, 1, many));
  } else {
    split.trajectories = static_cast<std::size_t>(table.integer("trajectories", 1, many));
  }
  return split;
}

void check_is_new(const std::string& name, const System& system, const DataPlan& data,
                  const ConfigTable& table, std::string_view key) {
  const std::vector<std::string> known = data.input_names();
  if (std::ranges::find(known, name) != known.end() || std::ranges::count(system.resolved_names(), name) > 0)
    table.fail(key, fmt::format("\"{}\" is the name of something else, too", name));
}

/// Names of numbers that came with recorded data.
void add_inputs(const ConfigTable& table, const char* key, const System& system, const DataPlan& data,
                std::vector<std::string>& names) {
  for (const std::string& name : table.strings_or(key, {})) {
    if (name.empty()) table.fail(key, "has one without a name");
    check_is_new(name, system, data, table, key);
    names.push_back(name);
  }
}

/// [data.given]
std::shared_ptr<const Formulas> read_formulas(const ConfigTable& root, const System& system,
                                              const DataPlan& data) {
  const auto given = root.table("data").table_if("given");
  if (!given) return nullptr;
  for (const std::string& name : given->keys()) check_is_new(name, system, data, *given, name);
  return std::make_shared<Formulas>(*given, root.table("system"), data.parameters);
}

DataPlan read_data(const ConfigTable& root, const System& system, const SystemFamily* family) {
  const ConfigTable table = root.table("data");
  DataPlan data;
  data_settings().read(table, data);
  if (family) data.parameters = family->names();
  for (const std::string& name : data.parameters)
    if (std::ranges::count(system.resolved_names(), name) > 0)
      table.fail("", fmt::format("\"{}\" is a parameter that varies and a resolved variable", name));
  add_inputs(table, "parameters", system, data, data.parameters);
  add_inputs(table, "forcing", system, data, data.forcing);
  data.formulas = read_formulas(root, system, data);
  // Of parameters that vary the ends are looked at, with the splits.
  if (const auto limit = system.largest_stable_dt(); !family && limit && data.dt > *limit)
    table.fail("dt", fmt::format("is {}, but the {} solver is stable only up to {:.3g}", data.dt,
                                 system.name(), *limit));
  for (const SplitKind& kind : split_kinds)
    if (const auto split = table.table_if(kind.name)) {
      data.splits.push_back(read_split(*split, kind, data, system));
      data.splits.back().laws = read_laws(root, *split, data.dt, family, system);
    }
  table.reject_unknown_keys();  // before anyone misses the split whose name is misspelt
  if (data.splits.empty())
    table.fail("", "needs at least one of [data.train], [data.validation], [data.test], [data.ood]");
  return data;
}

std::vector<Interval> read_intervals(const std::optional<ConfigTable>& evaluation, std::string_view key,
                                     const DataPlan& data, std::string_view split_name) {
  const auto split = std::find_if(data.splits.begin(), data.splits.end(),
                                  [&](const SplitPlan& other) { return other.name == split_name; });
  if (!evaluation || !evaluation->has(key)) {
    if (split == data.splits.end()) return {};
    return {{0, split->horizon}};
  }
  const ConfigTable& table = *evaluation;
  if (split == data.splits.end())
    table.fail(key, fmt::format("there is no [data.{}] to evaluate", split_name));
  std::vector<Interval> intervals;
  for (const std::vector<double>& pair : table.number_lists(key)) {
    if (pair.size() != 2 || pair[0] < 0 || pair[1] <= pair[0])
      table.fail(key, "expected intervals [from, to] with 0 <= from < to");
    if (pair[1] > split->horizon * (1 + 1e-9))
      table.fail(key, fmt::format("reaches to t = {}, but [data.{}] ends at {}", pair[1], split_name,
                                  split->horizon));
    // The slack of the metrics, which take the saved times inside an interval.
    const double step = data.closure_step(), slack = 1e-9 * std::max(1.0, pair[1]);
    if (std::floor((pair[1] + slack) / step) < std::ceil((pair[0] - slack) / step))
      table.fail(key, fmt::format("no time is saved in [{}, {}]: dt * stride is {}", pair[0], pair[1], step));
    intervals.push_back({pair[0], pair[1]});
  }
  return intervals;
}

EvaluationPlan read_evaluation(const ConfigTable& root, const DataPlan& data) {
  const auto table = root.table_if("evaluation");
  return {read_intervals(table, "intervals", data, "test"),
          read_intervals(table, "ood_intervals", data, "ood")};
}

RolloutPlan read_rollout(const ConfigTable& root, const System& system) {
  RolloutPlan plan;
  const auto table = root.table_if("rollout");
  if (!table) return plan;
  rollout_settings().read(*table, plan);
  if (plan.integrator == "etdrk4" && system.is_known() && linear_part_of(system).empty())
    table->fail("integrator",
                fmt::format("{} declares no linear part of its reduced equations, which etdrk4 needs",
                            system.name()));
  return plan;
}

using Values = std::map<std::string, std::string>;

void check_same(const std::string& file, const Values& values, const std::string& other_file,
                const Values& others) {
  const auto value_of = [](const Values& of, const std::string& key) {
    const auto found = of.find(key);
    return found == of.end() ? "absent" : found->second;
  };
  std::vector<std::string> keys{"name"};  // another system has other keys
  for (const auto* of : {&values, &others})
    for (const auto& [key, value] : *of) keys.push_back(key);
  for (const std::string& key : keys)
    if (value_of(values, key) != value_of(others, key))
      throw UsageError("{}: is about another system: {} is {}, in {} it is {}", file, key,
                       value_of(values, key), other_file, value_of(others, key));
}

}  // namespace

const SettingTable<DataPlan>& data_settings() {
  static const SettingTable<DataPlan> table = [] {
    SettingTable<DataPlan> t;
    t.number("dt", &DataPlan::dt, positive, "step of the full model's solver", {.required = true});
    t.integer("stride", &DataPlan::stride, {1},
              "solver steps between saved times; `dt` · `stride` is the closure step");
    t.integer("seed", &DataPlan::seed, {0, INT64_MAX}, "of the initial conditions");
    return t;
  }();
  return table;
}

const SettingTable<RolloutPlan>& rollout_settings() {
  static const SettingTable<RolloutPlan> table = [] {
    SettingTable<RolloutPlan> t;
    t.integer("substeps", &RolloutPlan::substeps, {0, most_substeps},
              "steps of the integrator in a closure step; 0: as many as the stiffness of the reduced "
              "equations needs");
    t.choice("integrator", &RolloutPlan::integrator, {"auto", "rk4", "etdrk4"},
             "of the reduced equations; `etdrk4` for systems that declare a linear part (`burgers`, `kdv`, "
             "`ks`), where "
             "`auto` takes it if one step of `rk4` is unstable");
    t.integer("members", &RolloutPlan::members, {1, 1000},
              "runs of `mac run` from each state of `test` and `ood`, of a stochastic model or of the "
              "networks of an "
              "ensemble");
    return t;
  }();
  return table;
}

std::vector<std::string> DataPlan::input_names() const {
  std::vector<std::string> names = parameters;
  names.insert(names.end(), forcing.begin(), forcing.end());
  if (formulas) names.insert(names.end(), formulas->names().begin(), formulas->names().end());
  return names;
}

std::string DataPlan::formulas_text() const {
  std::vector<std::string> parts;
  for (std::size_t k = 0; formulas && k < formulas->names().size(); ++k)
    parts.push_back(fmt::format("{} = {}", formulas->names()[k], formulas->texts()[k]));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string to_string(const Interval& interval) {
  return fmt::format("[{:g},{:g}]", interval.from, interval.to);
}

Experiment::Experiment(ConfigTable table, const SystemDescription* description)
    : config(std::move(table)),
      system(description ? make_system(middle_of(config.table("system")), *description)
                         : make_system(middle_of(config.table("system")))),
      family(make_family(config, system)),
      data(read_data(config, *system, family.get())),
      evaluation(read_evaluation(config, data)),
      rollout(read_rollout(config, *system)),
      models(read_models(config, *system, data)) {
  config.reject_unknown_keys();
}

Experiment Experiment::read(const std::string& path) { return Experiment(ConfigTable::read(path)); }

Experiment Experiment::read(const std::string& path, const SystemDescription& description) {
  return Experiment(ConfigTable::read(path), &description);
}

Experiment Experiment::parse(const std::string& text, const std::string& file) {
  return Experiment(ConfigTable::parse(text, file));
}

Experiment Experiment::parse(const std::string& text, const std::string& file,
                             const SystemDescription& description) {
  return Experiment(ConfigTable::parse(text, file), &description);
}

std::map<std::string, std::string> equations(const ConfigTable& system) {
  auto values = system.values();
  values.erase("grid");
  // Of equations as text, each parameter by itself: they may vary.
  if (system.has("kind") && system.holds_table("parameters")) {
    values.erase("parameters");
    for (const auto& [name, value] : system.table("parameters").values())
      values["parameters." + name] = value;
  }
  return values;
}

void check_same_system(const std::string& file, const Experiment& experiment, const std::string& other_file,
                       const Experiment& other) {
  check_same(file, experiment.config.table("system").values(), other_file,
             other.config.table("system").values());
}

void check_same_equations(const std::string& file, const Experiment& experiment,
                          const std::string& other_file, const Experiment& other) {
  check_same(file, equations(experiment.config.table("system")), other_file,
             equations(other.config.table("system")));
}

}  // namespace mac
