#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mac/verdict.hpp>

#include "base/factor_text.hpp"

namespace mac {

namespace {

constexpr double parted = 3;  // test error / validation error from which a closure does not generalise
constexpr double much_outside = 0.01;  // share of the steps outside the range of the training data

constexpr const char* split_order[] = {"test", "ood", "validation", "train"};

std::string split_words(std::string_view split) {
  return split == "ood" ? "out of distribution" : fmt::format("on {} data", split);
}

/// Until when the training data go; none where the rollouts do not know them.
std::optional<double> training_horizon(const Experiment& experiment) {
  const auto train = std::ranges::find(experiment.data.splits, "train", &SplitPlan::name);
  return train == experiment.data.splits.end() ? std::nullopt : std::optional(train->horizon);
}

std::string beyond_words(const Interval& interval, std::optional<double> horizon) {
  const bool beyond = horizon && interval.to > *horizon * (1 + 1e-9);
  return beyond ? fmt::format(", beyond the training horizon of {:g}", *horizon) : "";
}

std::string percent_of(double share) {
  return share < 0.0995 ? fmt::format("{:.2g} %", 100 * share) : fmt::format("{:.0f} %", 100 * share);
}

const ModelMetrics* find_model(const Evaluation& evaluation, auto&& is_it) {
  const auto found = std::ranges::find_if(evaluation.models, [&](const auto& m) { return is_it(m.model); });
  return found == evaluation.models.end() ? nullptr : &*found;
}

const SplitMetrics* find_split(const ModelMetrics* model, const std::string& split) {
  if (!model) return nullptr;
  const auto found = model->splits.find(split);
  return found == model->splits.end() ? nullptr : &found->second;
}

bool all_blew_up(const SplitMetrics& metrics) { return metrics.blow_ups.size() == metrics.trajectories; }

/// Geometric mean over the variables of above / below over the interval; none where nothing can be compared. A variable
/// that is off by exactly as much in both is none of the closure's business, such as a clock: it counts only if all are so.
std::optional<double> ratio(const SplitMetrics& above, const SplitMetrics& below,
                            const std::string& interval) {
  const auto find = [&](const SplitMetrics& metrics) -> const IntervalMetrics* {
    for (const IntervalMetrics& candidate : metrics.intervals)
      if (to_string(candidate.interval) == interval) return &candidate;
    return nullptr;
  };
  const IntervalMetrics *over = find(above), *under = find(below);
  if (!over || !under) return std::nullopt;
  double sum = 0;
  std::size_t count = 0;
  bool same = false;
  for (std::size_t v = 0; v < over->resolved.size(); ++v) {
    const double factor = over->resolved[v].mean / under->resolved[v].mean;
    if (factor == 1)
      same = true;
    else if (std::isfinite(factor) && factor > 0)
      sum += std::log(factor), ++count;
  }
  if (count == 0) return same ? std::optional(1.0) : std::nullopt;
  return std::exp(sum / static_cast<double>(count));
}

/// What a model is compared with; null where there is none.
struct Others {
  const ModelMetrics *markov = nullptr, *exact = nullptr, *memoryless = nullptr;
};

Comparison compare_over(const ModelMetrics& model, const Others& others, const std::string& split,
                        const std::string& interval) {
  Comparison result{split, interval, std::nullopt, std::nullopt, std::nullopt};
  const SplitMetrics& own = model.splits.at(split);
  if (all_blew_up(own)) return result;
  if (const SplitMetrics* none = find_split(others.markov, split))
    result.better = all_blew_up(*none) ? std::optional(std::numeric_limits<double>::infinity())
                                       : ratio(*none, own, interval);
  if (const SplitMetrics* floor = find_split(others.exact, split))
    result.above_floor = ratio(own, *floor, interval);
  if (const SplitMetrics* blind = find_split(others.memoryless, split); blind && others.memoryless != &model)
    result.memory = all_blew_up(*blind) ? std::optional(std::numeric_limits<double>::infinity())
                                        : ratio(*blind, own, interval);
  return result;
}

const IntervalMetrics& longest(const SplitMetrics& metrics) {
  return *std::ranges::max_element(metrics.intervals, {},
                                   [](const IntervalMetrics& m) { return m.interval.to - m.interval.from; });
}

/// "54 times better than no closure on test data over [0,2]"
std::string better_words(const Comparison& comparison) {
  const std::string where = fmt::format("{} over {}", split_words(comparison.split), comparison.interval);
  if (!comparison.better) return "no comparison with no closure " + where;
  if (std::isinf(*comparison.better)) return "better than no closure, which blows up, " + where;
  if (*comparison.better < 1)
    return fmt::format("{} times worse than no closure {}", factor_text(1 / *comparison.better), where);
  return fmt::format("{} times better than no closure {}", factor_text(*comparison.better), where);
}

std::string memory_words(double memory, const std::string& memoryless) {
  if (std::isinf(memory)) return fmt::format("better than {}, which has no memory and blows up", memoryless);
  if (std::abs(std::log(memory)) < 0.02)
    return fmt::format("no better than {}, which has no memory", memoryless);
  return memory < 1
             ? fmt::format("{} times worse than {}, which has no memory", factor_text(1 / memory), memoryless)
             : fmt::format("{} times better than {}, which has no memory", factor_text(memory), memoryless);
}

std::string sentence_of(const ModelMetrics& model, const std::vector<Comparison>& comparisons,
                        const Others& others, const System& system) {
  const Comparison& headline = comparisons.front();
  if (all_blew_up(model.splits.at(headline.split)))
    return fmt::format("{}: every rollout {} blew up", model.model, split_words(headline.split));
  std::string sentence = model.model + ": ";
  if (!others.markov) {
    sentence +=
        system.has_equations()
            ? "no rollout of markov (no closure) is among the files, so there is no comparison with it"
            : "there are no equations, so there is no comparison with no closure";
  } else {
    sentence += better_words(headline);
    for (std::size_t i = 1; i < comparisons.size(); ++i)
      if (comparisons[i].better) sentence += ", " + better_words(comparisons[i]);
  }
  if (headline.above_floor)
    sentence +=
        fmt::format("; its error is {} times that of the exact closure", factor_text(*headline.above_floor));
  if (headline.memory) sentence += "; " + memory_words(*headline.memory, others.memoryless->model);
  return sentence;
}

void warn_of_losses(const ModelMetrics& model, const Others& others, const Comparison& headline,
                    std::optional<double> horizon, std::vector<std::string>& warnings) {
  if (headline.memory && *headline.memory < 1)
    warnings.push_back(
        fmt::format("{}: the closure is {}: memory does not help here, or is not trained enough", model.model,
                    memory_words(*headline.memory, others.memoryless->model)));
  for (const char* split : split_order) {
    const SplitMetrics* metrics = find_split(&model, split);
    if (!metrics) continue;
    const auto found = model.splits.find(split);
    for (const IntervalMetrics& interval : found->second.intervals) {
      const Comparison comparison = compare_over(model, {others.markov}, split, to_string(interval.interval));
      if (comparison.better && *comparison.better < 1)
        warnings.push_back(fmt::format("{}: the closure is {}{}", model.model, better_words(comparison),
                                       beyond_words(interval.interval, horizon)));
    }
  }
}

void warn_of_blow_ups(const ModelMetrics& model, std::vector<std::string>& warnings) {
  for (const auto& [split, metrics] : model.splits) {
    if (metrics.blow_ups.empty()) continue;
    const BlowUp& first = *std::ranges::min_element(metrics.blow_ups, {}, &BlowUp::time);
    warnings.push_back(fmt::format(
        "{}: {} of {} rollouts {} blew up, the first at t = {:g}; they are in no mean", model.model,
        metrics.blow_ups.size(), metrics.trajectories, split_words(split), first.time));
  }
}

void warn_of_parting(const ModelMetrics& model, std::vector<std::string>& warnings) {
  if (!model.validation) return;
  const auto& [horizon, validation, test] = *model.validation;
  const double factor = test / validation;
  if (std::isfinite(factor) && factor > parted)
    warnings.push_back(
        fmt::format("{}: validation and test part: the error over {:g} of time is {} on test data, "
                    "{} times the {} on validation data",
                    model.model, horizon, percent_of(test), factor_text(factor), percent_of(validation)));
}

/// Out of distribution the truth itself is outside: there only what the model adds to it counts.
void warn_of_outside(const ModelMetrics& model, const System& system, std::vector<std::string>& warnings) {
  for (const auto& [split, metrics] : model.splits) {
    if (!metrics.outside) continue;
    const OutsideShare& outside = *metrics.outside;
    if (outside.any <= much_outside + (split == "ood" ? outside.true_any : 0)) continue;
    std::string variables;
    for (std::size_t v = 0; v < outside.variables.size(); ++v)
      if (outside.variables[v] > much_outside)
        variables += fmt::format("{}{} {}", variables.empty() ? "" : ", ", system.resolved_names()[v],
                                 percent_of(outside.variables[v]));
    warnings.push_back(
        fmt::format("{}: the state {} leaves the range of the training data in {} of the steps "
                    "({}the truth {})",
                    model.model, split_words(split), percent_of(outside.any),
                    variables.empty() ? "" : variables + "; ", percent_of(outside.true_any)));
  }
}

void warn_of_parameters(const ModelMetrics& model, std::vector<std::string>& warnings) {
  for (const auto& [split, metrics] : model.splits)
    for (const ParameterMetrics& parameter : metrics.by_parameter) {
      std::size_t outside = 0, all = 0;
      double low = parameter.training ? parameter.training->from : 0, high = low;
      if (parameter.training) high = parameter.training->to;
      for (const ParameterMetrics::Group& group : parameter.groups) {
        all += group.trajectories;
        if (!group.outside) continue;
        outside += group.trajectories;
        low = std::min(low, group.value), high = std::max(high, group.value);
      }
      if (outside == 0) continue;
      std::vector<std::string> reached;
      if (low < parameter.training->from) reached.push_back(fmt::format("{:g}", low));
      if (high > parameter.training->to) reached.push_back(fmt::format("{:g}", high));
      warnings.push_back(fmt::format(
          "{}: {} of {} trajectories {} have {} outside of its range in the training data, {} (to {})",
          model.model, outside, all, split_words(split), parameter.name, to_string(*parameter.training),
          fmt::join(reached, " and ")));
    }
}

/// Of a model of which there are long runs alone.
std::string climate_sentence(const std::string& model, const Statistics& statistics) {
  const QuantityStatistics& q = statistics.quantities.front();
  return fmt::format(
      "{}: in long runs the distribution of {} is {:.2g} from the true one in Hellinger's distance, one half "
      "of the "
      "truth {:.2g} from the other",
      model, q.name, q.hellinger.value, q.hellinger.floor);
}

/// Whether the statistics call a closure so, or those of a ring together. A closure's distribution may be another
/// although the states stay where they should: noise that averages out, means over steps instead of instants.
bool is_closure(const System& system, const std::string& quantity) {
  const std::vector<std::string>& names = system.closure_names();
  return std::ranges::any_of(
      names, [&](const std::string& name) { return name == quantity || variable_family(name) == quantity; });
}

/// Where the model's climate is not the truth's: far above what two halves of the truth differ by. Of several
/// quantities the worst is named.
void warn_of_climate(const ModelMetrics& model, const System& system, std::vector<std::string>& warnings) {
  constexpr double far = 0.05, times_floor = 3;
  for (const auto& [split, metrics] : model.splits) {
    const QuantityStatistics* worst = nullptr;
    if (!metrics.statistics) continue;
    for (const QuantityStatistics& q : metrics.statistics->quantities)
      if (!is_closure(system, q.name) && q.hellinger.value > std::max(far, times_floor * q.hellinger.floor) &&
          (!worst || q.hellinger.value > worst->hellinger.value))
        worst = &q;
    if (!worst) continue;
    warnings.push_back(
        fmt::format("{}: leaves the attractor: in long runs (split {}) the distribution of {} is {:.2g} from "
                    "the true one in "
                    "Hellinger's distance, one half of the truth {:.2g} from the other; its standard "
                    "deviation is {:.3g}, the true one "
                    "{:.3g}",
                    model.model, split, worst->name, worst->hellinger.value, worst->hellinger.floor,
                    worst->std, worst->true_std));
  }
}

}  // namespace

const ModelMetrics* find_memoryless(const Evaluation& evaluation) {
  return find_model(evaluation, [&](const std::string& name) {
    const auto plan = std::ranges::find(evaluation.experiment.models, name, &ModelPlan::name);
    return plan == evaluation.experiment.models.end() ? name == "mlp" : plan->kind == "mlp";
  });
}

bool is_floor(std::string_view model) { return model == "exact" || model.starts_with("exact_"); }

std::string_view verdict_measure() {
  return "factors: geometric means over the resolved variables of ratios of mean relative L2 errors";
}

std::vector<Verdict> verdicts(const Evaluation& evaluation) {
  const System& system = *evaluation.experiment.system;
  const Others others{find_model(evaluation, [](const std::string& name) { return name == "markov"; }),
                      find_model(evaluation, [](const std::string& name) { return is_floor(name); }),
                      find_memoryless(evaluation)};
  std::vector<Verdict> result;
  for (const ModelMetrics& model : evaluation.models) {
    if (model.model == "markov" || is_floor(model.model)) continue;
    Verdict verdict{model.model, {}, {}, {}};
    for (const char* split : split_order)
      if (const SplitMetrics* metrics = find_split(&model, split); metrics && !metrics->intervals.empty())
        verdict.comparisons.push_back(
            compare_over(model, others, split, to_string(longest(*metrics).interval)));
    if (!verdict.comparisons.empty()) {
      verdict.sentence = sentence_of(model, verdict.comparisons, others, system);
      warn_of_losses(model, others, verdict.comparisons.front(), training_horizon(evaluation.experiment),
                     verdict.warnings);
    } else if (const SplitMetrics* runs = find_split(&model, statistics_split); runs && runs->statistics) {
      verdict.sentence = climate_sentence(model.model, *runs->statistics);
    } else {
      continue;
    }
    warn_of_blow_ups(model, verdict.warnings);
    warn_of_parting(model, verdict.warnings);
    warn_of_outside(model, system, verdict.warnings);
    warn_of_parameters(model, verdict.warnings);
    warn_of_climate(model, system, verdict.warnings);
    result.push_back(std::move(verdict));
  }
  return result;
}

}  // namespace mac
