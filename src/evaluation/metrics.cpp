#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mac/error.hpp>
#include <numbers>
#include <numeric>

#include "data/relative_l2.hpp"
#include "evaluation/evaluator.hpp"
#include "evaluation/mean_std.hpp"
#include "evaluation/parameter_errors.hpp"

namespace mac {

namespace {

/// Values of one cell: a number a trajectory, file after file.
class Cell {
 public:
  void next_file() { first_of_file_.push_back(values_.size()); }
  void add(double value) {
    if (!std::isnan(value)) values_.push_back(value);
  }
  MeanStd finish() const {
    MeanStd result = mean_std(values_);
    if (first_of_file_.size() < 2) return result;
    for (std::size_t i = 0; i < first_of_file_.size(); ++i) {
      const std::size_t end = i + 1 < first_of_file_.size() ? first_of_file_[i + 1] : values_.size();
      result.seeds.push_back(mean_std({values_.begin() + static_cast<std::ptrdiff_t>(first_of_file_[i]),
                                       values_.begin() + static_cast<std::ptrdiff_t>(end)})
                                 .mean);
    }
    return result;
  }

 private:
  std::vector<double> values_;
  std::vector<std::size_t> first_of_file_;
};

/// One trajectory, (n_time, width) each.
struct Pair {
  std::span<const double> predicted, truth;
  std::size_t width;

  double error(std::size_t t, std::size_t v) const { return predicted[t * width + v] - truth[t * width + v]; }
  double true_value(std::size_t t, std::size_t v) const { return truth[t * width + v]; }
};

/// First and one past the last index of the saved times inside the interval, its ends included.
std::pair<std::size_t, std::size_t> time_range(const std::vector<double>& time, const Interval& interval) {
  const double slack = 1e-9 * std::max(1.0, std::abs(interval.to));
  const auto first = std::lower_bound(time.begin(), time.end(), interval.from - slack);
  const auto last = std::upper_bound(time.begin(), time.end(), interval.to + slack);
  return {static_cast<std::size_t>(first - time.begin()), static_cast<std::size_t>(last - time.begin())};
}

/// Relative errors over times [first, last).
std::vector<double> errors_of(const Pair& pair, std::size_t first, std::size_t last) {
  const std::size_t begin = first * pair.width, count = (last - first) * pair.width;
  return relative_l2(pair.predicted.subspan(begin, count), pair.truth.subspan(begin, count), pair.width);
}

/// sqrt( sum_{j<=i} |X - X~|^2 / sum_{all j} |X|^2 ) for every i (paper, sec_results_l96, without a number).
Series running_l2(const Pair& pair, std::size_t times) {
  double norm = 0, error = 0;
  for (const double value : pair.truth) norm += value * value;
  Series series(times);
  for (std::size_t t = 0; t < times; ++t) {
    for (std::size_t v = 0; v < pair.width; ++v) error += pair.error(t, v) * pair.error(t, v);
    series[t] = std::sqrt(error / norm);
  }
  return series;
}

/// sum <X, X~> / ( sum |X|^2 sum |X~|^2 )^(1/2) over j <= i (paper, sec_results_l96, Corr). Centred: about
/// the running means of each variable; sums are then taken around the first true state, so that large means
/// cost no digits.
Series running_correlation(const Pair& pair, std::size_t times, bool centred) {
  const std::size_t width = pair.width;
  std::vector<double> sum_x(width), sum_p(width);
  double xx = 0, pp = 0, xp = 0;
  Series series(times);
  for (std::size_t t = 0; t < times; ++t) {
    double mean_xx = 0, mean_pp = 0, mean_xp = 0;  // sums of products of the running sums
    for (std::size_t v = 0; v < width; ++v) {
      const double origin = centred ? pair.true_value(0, v) : 0.0;
      const double x = pair.true_value(t, v) - origin, p = pair.predicted[t * width + v] - origin;
      xx += x * x, pp += p * p, xp += x * p;
      sum_x[v] += x, sum_p[v] += p;
      mean_xx += sum_x[v] * sum_x[v], mean_pp += sum_p[v] * sum_p[v], mean_xp += sum_x[v] * sum_p[v];
    }
    const double weight = centred ? 1 / static_cast<double>(t + 1) : 0.0;
    const double var_x = xx - weight * mean_xx, var_p = pp - weight * mean_pp, cov = xp - weight * mean_xp;
    // At the first time a centred correlation is 0/0: both have no spread yet and agree. What stands still
    // beside something that moves tells nothing about it.
    if (var_x > 0 && var_p > 0)
      series[t] = cov / std::sqrt(var_x * var_p);
    else
      series[t] = var_x > 0 || var_p > 0 ? 0.0 : 1.0;
  }
  return series;
}

/// sqrt(4 pi sum_k |theta_k - theta^_k|^2): the L2 norm over [0, 2 pi) of the difference of the real fields
/// (paper, sec_results_burgers, fig_burgers_extrap_l2).
Series physical_l2(const Pair& pair, std::size_t times) {
  Series series(times);
  for (std::size_t t = 0; t < times; ++t) {
    double error = 0;
    for (std::size_t v = 0; v < pair.width; ++v) error += pair.error(t, v) * pair.error(t, v);
    series[t] = std::sqrt(4 * std::numbers::pi * error);
  }
  return series;
}

/// E_res = sum_k |theta_k|^2 (paper, sec_results_burgers, without a number).
Series energy(std::span<const double> state, std::size_t width) {
  Series series(state.size() / width);
  for (std::size_t t = 0; t < series.size(); ++t)
    for (std::size_t v = 0; v < width; ++v) series[t] += state[t * width + v] * state[t * width + v];
  return series;
}

/// Sums series element by element; the mean is taken at the end.
void add(Series& sum, const Series& series) {
  sum.resize(series.size());
  for (std::size_t t = 0; t < series.size(); ++t) sum[t] += series[t];
}

/// Steps outside the range of the training data, widened by a twentieth of its width on either side: states
/// of test data may lie beyond the outermost of finitely many training states.
class OutsideCounter {
 public:
  void add(const ResolvedRange& range, const Pair& pair, std::size_t times) {
    constexpr double margin = 0.05;
    const std::size_t d = pair.width;
    variables_.resize(d);
    for (std::size_t t = 0; t < times; ++t) {
      bool any = false, true_any = false;
      for (std::size_t v = 0; v < d; ++v) {
        const double slack = margin * (range.high[v] - range.low[v]);
        const auto outside = [&](double value) {
          return value < range.low[v] - slack || value > range.high[v] + slack;
        };
        if (outside(pair.predicted[t * d + v])) any = true, ++variables_[v];
        true_any = true_any || outside(pair.true_value(t, v));
      }
      ++steps_, any_ += any, true_any_ += true_any;
    }
  }
  std::optional<OutsideShare> finish() const {
    if (steps_ == 0) return std::nullopt;
    const auto share = [&](std::size_t count) {
      return static_cast<double>(count) / static_cast<double>(steps_);
    };
    OutsideShare result{share(any_), share(true_any_), {}};
    for (const std::size_t count : variables_) result.variables.push_back(share(count));
    return result;
  }

 private:
  std::size_t steps_ = 0, any_ = 0, true_any_ = 0;
  std::vector<std::size_t> variables_;
};

/// The index of the lower median; none of no values.
std::optional<std::size_t> median_of(std::vector<std::pair<double, std::size_t>> errors) {
  if (errors.empty()) return std::nullopt;
  std::ranges::sort(errors);
  return errors[(errors.size() - 1) / 2].second;
}

}  // namespace

/// Collects the trajectories of one model and split, from one file or several.
class Collector {
 public:
  Collector(const Experiment& experiment, const std::vector<Interval>& intervals)
      : fourier_(experiment.system->fourier_modes() > 0),
        d_(experiment.system->resolved_size()),
        c_(experiment.system->closure_size()),
        intervals_(intervals),
        resolved_(intervals.size(), std::vector<Cell>(d_)),
        closure_(intervals.size(), std::vector<Cell>(c_)),
        by_parameter_(experiment.data.parameters),
        parameters_(experiment.data.parameters.size()) {}

  void add_split(const RolloutSplit& split, const RolloutFile& of) {
    const std::string& file = of.path;
    if (!metrics_.time.empty() && split.time != metrics_.time)
      throw Error("{}: split {} has other saved times than the model's other files", file, split.name);
    metrics_.time = split.time;
    for (Cell* cell : {&final_l2_, &final_correlation_, &final_centred_correlation_}) cell->next_file();
    for (auto* intervals : {&resolved_, &closure_})
      for (std::vector<Cell>& cells : *intervals)
        for (Cell& cell : cells) cell.next_file();
    for (std::size_t i = 0; i < split.trajectories(); ++i) {
      ++metrics_.trajectories;
      if (!std::isnan(split.blow_up_time[i]))
        metrics_.blow_ups.push_back({file, i, split.blow_up_time[i]});
      else
        add_trajectory(split, i, of);
      if (!split.parameters.empty())
        by_parameter_.add(std::span(split.parameters).subspan(i * parameters_, parameters_),
                          mean_error(split, i), of.parameter_range);
    }
    ++files_;
  }

  /// Mean over trajectories and variables of the errors over the horizon of the validation; NaN: none.
  double error_over_validation() const { return mean_std(over_validation_).mean; }

  SplitMetrics finish() {
    for (std::size_t k = 0; k < intervals_.size(); ++k) {
      IntervalMetrics interval{intervals_[k], {}, {}};
      for (const Cell& cell : resolved_[k]) interval.resolved.push_back(cell.finish());
      for (const Cell& cell : closure_[k]) interval.closure.push_back(cell.finish());
      metrics_.intervals.push_back(std::move(interval));
    }
    metrics_.cumulative_l2 = final_l2_.finish();
    metrics_.correlation = final_correlation_.finish();
    metrics_.centred_correlation = final_centred_correlation_.finish();
    metrics_.median_trajectory = median_of(first_file_errors_);
    metrics_.outside = outside_.finish();
    metrics_.by_parameter = by_parameter_.finish();
    const auto n = static_cast<double>(metrics_.trajectories - metrics_.blow_ups.size());
    for (Series* series :
         {&metrics_.running_l2, &metrics_.running_correlation, &metrics_.running_centred_correlation,
          &metrics_.physical_l2, &metrics_.energy, &metrics_.true_energy})
      for (double& value : *series) value /= n;
    for (auto& [label, series] : metrics_.labelled_physical_l2)
      for (double& value : series) value /= static_cast<double>(label_counts_[label]);
    return std::move(metrics_);
  }

 private:
  /// Relative L2 error over all times, mean over the variables; NaN after a blow-up.
  double mean_error(const RolloutSplit& split, std::size_t i) const {
    if (!std::isnan(split.blow_up_time[i])) return std::nan("");
    const std::size_t size = split.time.size() * d_;
    std::vector<double> known;
    for (const double error : relative_l2(std::span(split.resolved).subspan(i * size, size),
                                          std::span(split.true_resolved).subspan(i * size, size), d_))
      if (!std::isnan(error)) known.push_back(error);
    return mean_std(known).mean;
  }

  void add_trajectory(const RolloutSplit& split, std::size_t i, const RolloutFile& of) {
    const std::size_t times = split.time.size();
    const auto slice = [&](const std::vector<double>& values, std::size_t width) {
      return std::span(values).subspan(i * times * width, times * width);
    };
    const Pair resolved{slice(split.resolved, d_), slice(split.true_resolved, d_), d_};
    const Pair closure{slice(split.closure, c_), slice(split.true_closure, c_), c_};
    // Where the closure is masked, the state is interpolated: no truth to be judged by.
    std::vector<double> truth(resolved.truth.begin(), resolved.truth.end());
    for (std::size_t k = 0; k < closure.truth.size(); ++k)
      if (std::isnan(closure.truth[k]))
        std::fill_n(truth.begin() + static_cast<std::ptrdiff_t>(k / c_ * d_), d_, closure.truth[k]);
    const Pair known{resolved.predicted, truth, d_};
    for (std::size_t k = 0; k < intervals_.size(); ++k) {
      const auto [first, last] = time_range(split.time, intervals_[k]);
      const auto resolved_errors = errors_of(known, first, last);
      const auto closure_errors = errors_of(closure, first, last);
      for (std::size_t v = 0; v < d_; ++v) resolved_[k][v].add(resolved_errors[v]);
      for (std::size_t v = 0; v < c_; ++v) closure_[k][v].add(closure_errors[v]);
    }
    const auto add_running = [](const Series& series, Series& sum, Cell& final) {
      add(sum, series);
      final.add(series.back());
    };
    const Series error = running_l2(resolved, times);
    if (files_ == 0) first_file_errors_.emplace_back(error.back(), i);
    add_running(error, metrics_.running_l2, final_l2_);
    if (of.training_range) outside_.add(*of.training_range, resolved, times);
    if (of.validation) {
      const double begin = split.time.front();
      const auto [first, last] = time_range(split.time, {begin, begin + of.validation->horizon});
      for (const double relative : errors_of(resolved, first, last))
        if (!std::isnan(relative)) over_validation_.push_back(relative);
    }
    add_running(running_correlation(resolved, times, false), metrics_.running_correlation,
                final_correlation_);
    add_running(running_correlation(resolved, times, true), metrics_.running_centred_correlation,
                final_centred_correlation_);
    if (!fourier_) return;
    const Series field_error = physical_l2(resolved, times);
    add(metrics_.physical_l2, field_error);
    add(metrics_.energy, energy(resolved.predicted, d_));
    add(metrics_.true_energy, energy(resolved.truth, d_));
    if (!split.labels[i].empty()) {
      add(metrics_.labelled_physical_l2[split.labels[i]], field_error);
      ++label_counts_[split.labels[i]];
    }
  }

  bool fourier_;
  std::size_t d_, c_;
  std::vector<Interval> intervals_;
  std::vector<std::vector<Cell>> resolved_, closure_;  // [interval][variable]
  Cell final_l2_, final_correlation_, final_centred_correlation_;
  std::map<std::string, std::size_t> label_counts_;
  std::size_t files_ = 0;
  std::vector<std::pair<double, std::size_t>> first_file_errors_;  // of each trajectory, and its index
  OutsideCounter outside_;
  ParameterErrors by_parameter_;
  std::size_t parameters_;  // how many a trajectory has
  std::vector<double> over_validation_;
  SplitMetrics metrics_;
};

namespace {

/// The experiment's intervals that the rollout covers; its whole length where the experiment asks for none.
std::vector<Interval> intervals_of(const Experiment& experiment, const RolloutSplit& split) {
  const Interval whole{split.time.front(), split.time.back()};
  if (split.name != "test" && split.name != "ood") return {whole};
  const auto& wanted =
      split.name == "test" ? experiment.evaluation.intervals : experiment.evaluation.ood_intervals;
  std::vector<Interval> covered;
  const double slack = 1e-9 * std::max(1.0, whole.to);
  for (const Interval& interval : wanted)
    if (interval.from >= whole.from - slack && interval.to <= whole.to + slack) covered.push_back(interval);
  return covered.empty() ? std::vector<Interval>{whole} : covered;
}

/// Drops the times that lie beyond the data, where there is no truth to compare with.
void trim_to_truth(RolloutSplit& split, std::size_t d, std::size_t c, const std::string& file) {
  const std::size_t times = split.time.size();
  std::size_t known = times;
  while (known > 0 && std::isnan(split.true_resolved[(known - 1) * d])) --known;
  if (known < 2)
    throw Error("{}: split {} lies beyond the data, there is no truth to compare with", file, split.name);
  const auto trim = [&](std::vector<double>& values, std::size_t width) {
    const std::size_t rows = values.size() / (times * width);
    for (std::size_t i = 0; i < rows; ++i)
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(i * times * width), known * width,
                  values.begin() + static_cast<std::ptrdiff_t>(i * known * width));
    values.resize(rows * known * width);
  };
  if (known == times) return;
  trim(split.resolved, d), trim(split.true_resolved, d), trim(split.closure, c), trim(split.true_closure, c);
  trim(split.members.resolved, d), trim(split.members.closure, c);
  split.time.resize(known);
}

}  // namespace

MeanStd mean_std(const std::vector<double>& values) {
  if (values.empty()) return {std::nan(""), std::nan("")};
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double variance = 0;
  for (const double value : values) variance += (value - mean) * (value - mean) / n;
  return {mean, std::sqrt(variance)};
}

double MeanStd::seed_std() const {
  const auto n = static_cast<double>(seeds.size());
  if (n < 2) return std::nan("");
  return mean_std(seeds).std * std::sqrt(n / (n - 1));
}

void Evaluator::add(RolloutFile rollout) {
  if (!experiment_) {
    experiment_ = rollout.experiment;
    first_path_ = rollout.path;
  }
  check_same_equations(rollout.path, rollout.experiment, first_path_, *experiment_);
  const auto [found, fresh] = models_.try_emplace(rollout.model);
  if (fresh) order_.push_back(rollout.model);
  ModelCollector& model = found->second;
  for (const std::string& before : model.files)  // twice the same would count as two seeds
    if (std::error_code absent; std::filesystem::equivalent(before, rollout.path, absent))
      throw UsageError("{}: is given twice{}", rollout.path,
                       before == rollout.path ? "" : fmt::format(", also as {}", before));
  model.files.push_back(rollout.path);
  if (rollout.validation) {
    model.horizon = rollout.validation->horizon;
    model.validation_errors.push_back(rollout.validation->error);
  }
  const System& system = *experiment_->system;
  for (RolloutSplit& split : rollout.splits) {
    trim_to_truth(split, system.resolved_size(), system.closure_size(), rollout.path);
    auto& collector = model.splits[split.name];
    if (!collector)
      collector = std::make_unique<Collector>(rollout.experiment, intervals_of(rollout.experiment, split));
    collector->add_split(split, rollout);
    if (all_statistics_ || split.name == statistics_split)
      model.statistics.try_emplace(split.name, rollout.experiment, rollout.model != "markov", from_)
          .first->second.add(split);
    if (split.members.count > 1) model.verification[split.name].add(split);
  }
}

Evaluation Evaluator::finish() {
  if (!experiment_) throw UsageError("there is no rollout to evaluate");
  Evaluation evaluation{*experiment_, {}};
  for (const std::string& name : order_) {
    ModelCollector& model = models_.at(name);
    ModelMetrics metrics{name, model.files, {}};
    if (const auto test = model.splits.find("test");
        test != model.splits.end() && model.validation_errors.size() == model.files.size())
      metrics.validation = ValidationCheck{model.horizon, mean_std(model.validation_errors).mean,
                                           test->second->error_over_validation()};
    for (auto& [split, collector] : model.splits) metrics.splits.emplace(split, collector->finish());
    for (const auto& [split, collector] : model.statistics)
      metrics.splits.at(split).statistics = collector.finish();
    for (const auto& [split, collector] : model.verification)
      metrics.splits.at(split).verification = collector.finish();
    evaluation.models.push_back(std::move(metrics));
  }
  return evaluation;
}

Evaluator::Evaluator(bool all_statistics, std::optional<double> from)
    : all_statistics_(all_statistics), from_(from) {}
Evaluator::~Evaluator() = default;

Evaluation evaluate(std::vector<RolloutFile> rollouts) {
  Evaluator evaluator;
  for (RolloutFile& rollout : rollouts) evaluator.add(std::move(rollout));
  return evaluator.finish();
}

}  // namespace mac
