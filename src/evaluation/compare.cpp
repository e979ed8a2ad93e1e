// Evaluations against each other and against the paper, cell by cell.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mac/evaluation.hpp>

namespace mac {

namespace {

struct Key {
  std::string model, split, quantity, interval, variable;
};

constexpr const char* blow_ups = "blow-ups";

/// The share of the trajectories that blew up, taken for the same in every seed.
MeanStd blow_up_rate(const SplitMetrics& metrics) {
  const double rate =
      static_cast<double>(metrics.blow_ups.size()) / static_cast<double>(metrics.trajectories);
  return {rate, std::sqrt(rate * (1 - rate)), Series(metrics.cumulative_l2.seeds.size(), rate)};
}

/// Calls visit(key, value) for every number that a table shows with its spread.
template <class Visit>
void for_each_cell(const Evaluation& evaluation, const Visit& visit) {
  const System& system = *evaluation.experiment.system;
  for (const ModelMetrics& model : evaluation.models)
    for (const auto& [split, metrics] : model.splits) {
      for (const IntervalMetrics& interval : metrics.intervals)
        for (const bool resolved : {true, false}) {
          const auto& names = resolved ? system.resolved_names() : system.closure_names();
          const auto& values = resolved ? interval.resolved : interval.closure;
          for (std::size_t v = 0; v < names.size(); ++v)
            visit(Key{model.model, split, resolved ? "resolved" : "closure", to_string(interval.interval),
                      names[v]},
                  values[v]);
        }
      visit(Key{model.model, split, "cumulative_l2", "", ""}, metrics.cumulative_l2);
      visit(Key{model.model, split, blow_ups, "", ""}, blow_up_rate(metrics));
    }
}

const SplitMetrics* find_split(const Evaluation& evaluation, const Key& key) {
  for (const ModelMetrics& model : evaluation.models)
    if (model.model == key.model)
      if (const auto split = model.splits.find(key.split); split != model.splits.end()) return &split->second;
  return nullptr;
}

/// Variance of the mean over the trajectories of one test set. Seeds share their test set: pooling them does
/// not make it larger.
double mean_variance(const MeanStd& value, const SplitMetrics& metrics) {
  const std::size_t seeds = std::max<std::size_t>(1, value.seeds.size());
  return value.std * value.std * static_cast<double>(seeds) / static_cast<double>(metrics.trajectories);
}

double seed_variance(const MeanStd& value) {
  const double spread = value.seed_std();
  return std::isfinite(spread) ? spread * spread : 0;
}

}  // namespace

// A mean that both lack (a variable that a symmetry keeps at zero) agrees; one that only one lacks (all of
// its trajectories blew up) does not.
bool ComparedCell::within() const {
  if (std::isnan(stored.mean) || std::isnan(fresh.mean))
    return std::isnan(stored.mean) && std::isnan(fresh.mean);
  return std::abs(fresh.mean - stored.mean) <= tolerance;
}

std::vector<ComparedCell> compare(const Evaluation& fresh, const Evaluation& stored) {
  const std::string &file = fresh.experiment.config.file(), &stored_file = stored.experiment.config.file();
  check_same_equations(file, fresh.experiment, stored_file, stored.experiment);
  // Both are rounded to six digits where they come from files.
  constexpr double rounding = 1e-5;
  std::vector<ComparedCell> cells;
  for_each_cell(fresh, [&](const Key& key, const MeanStd& value) {
    for_each_cell(stored, [&](const Key& other, const MeanStd& old) {
      if (key.model != other.model || key.split != other.split || key.quantity != other.quantity ||
          key.interval != other.interval || key.variable != other.variable)
        return;
      const SplitMetrics &now = *find_split(fresh, key), &then = *find_split(stored, key);
      const bool whole = key.interval.empty();  // as long as the rollouts are
      if (whole && std::abs(now.time.back() - then.time.back()) > 1e-6 * then.time.back()) return;
      // That trajectories blow up must not widen what is allowed: there the stored rate stands for both.
      MeanStd spread = value;
      if (key.quantity == blow_ups) spread.std = old.std;
      const double variance = seed_variance(old) + mean_variance(old, then) + mean_variance(spread, now);
      cells.push_back({key.model, key.split, key.quantity, key.interval, key.variable, old, value,
                       3 * std::sqrt(variance) + rounding * std::abs(old.mean)});
    });
  });
  return cells;
}

Table paper_comparison(const Evaluation& evaluation) {
  struct Row {
    std::string title;
    std::vector<std::string> lower, equal, higher;
  };
  std::vector<Row> rows;
  for_each_cell(evaluation, [&](const Key& key, const MeanStd& value) {
    const auto paper =
        paper_value(evaluation.experiment, key.model, key.split, key.quantity, key.interval, key.variable);
    if (!paper || std::isnan(value.mean)) return;
    const std::string title =
        key.quantity == "cumulative_l2"
            ? fmt::format("{}, {}: cumulative L2", key.model, key.split)
            : fmt::format("{}, {}: {} {}", key.model, key.split, key.quantity, key.interval);
    if (rows.empty() || rows.back().title != title) rows.push_back({title, {}, {}, {}});
    const double spread = std::sqrt(seed_variance(value));
    auto& list = value.mean < paper->mean - spread   ? rows.back().lower
                 : value.mean > paper->mean + spread ? rows.back().higher
                                                     : rows.back().equal;
    list.push_back(key.variable.empty() ? "all" : key.variable);
  });
  Table table{fmt::format("{} against the paper: cells that are lower, equal within the standard deviation "
                          "between seeds, higher",
                          evaluation.experiment.system->name()),
              {"table", "lower", "equal", "higher"},
              {}};
  for (const Row& row : rows) {
    const auto list = [](const std::vector<std::string>& names) {
      return names.empty() ? std::string("-") : fmt::format("{}", fmt::join(names, " "));
    };
    table.rows.push_back({row.title, list(row.lower), list(row.equal), list(row.higher)});
  }
  return table;
}

}  // namespace mac
