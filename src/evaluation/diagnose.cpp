#include <algorithm>
#include <cmath>
#include <functional>
#include <mac/diagnose.hpp>
#include <mac/error.hpp>
#include <mac/progress.hpp>

#include "data/growth_rate.hpp"
#include "parallel/ranks_in_order.hpp"
#include "parallel/thread_count.hpp"
#include "systems/fourier.hpp"

namespace mac {

namespace {

std::size_t steps_of(const DiagnosePlan& plan) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::llround(plan.horizon / plan.dt)));
}

struct Numbers {
  std::vector<double> values;
};
std::array<std::vector<double>*, 1> arrays(Numbers& numbers) { return {&numbers.values}; }

/// What work(index, solver at time 0) gives for every trajectory, on all ranks, whoever ran it.
std::vector<std::vector<double>> for_each_trajectory(
    const DiagnosePlan& plan, const char* label,
    const std::function<std::vector<double>(std::size_t, FullSolver&)>& work) {
  Progress progress(label, plan.trajectories, plan.quiet);
  std::vector<std::vector<double>> results(plan.trajectories);
  ranks_in_order(
      plan.trajectories, thread_count(plan.threads),
      [&](std::size_t, std::size_t index) {
        throw_if_interrupted();
        const auto solver = plan.system->make_solver(plan.dt);
        RandomStream random(plan.seed, plan.purpose, static_cast<std::uint32_t>(index));
        start_trajectory(*plan.system, *plan.initial, index, random, *solver);
        return Numbers{work(index, *solver)};
      },
      [&](std::size_t index, Numbers numbers) {
        results[index] = std::move(numbers.values);
        progress.advance();
      });
  std::vector<std::vector<double>*> all;
  for (auto& result : results) all.push_back(&result);
  Bytes bytes = packed(all);
  ranks().broadcast(bytes);
  unpack(bytes, all);
  return results;
}

void check_finite(const DiagnosePlan& plan, std::size_t index, std::size_t step, double value) {
  if (!std::isfinite(value))
    throw Error("the {} solver blew up in trajectory {} before t = {:g}; try a smaller dt",
                plan.system->name(), index, static_cast<double>(step) * plan.dt);
}

/// The step at which sample s of 0..samples is taken.
std::size_t sample_step(std::size_t s, std::size_t samples, std::size_t steps) { return s * steps / samples; }

/// Visits the solver at samples + 1 times from 0 to the horizon: visit(sample, step).
template <class Visit>
void sample_trajectory(const DiagnosePlan& plan, std::size_t samples, FullSolver& solver, Visit&& visit) {
  const std::size_t steps = steps_of(plan);
  std::size_t step = 0;
  for (std::size_t s = 0; s <= samples; ++s) {
    for (; step < sample_step(s, samples, steps); ++step) {
      solver.step();
      if (step % 4096 == 0) throw_if_interrupted();
    }
    visit(s, step);
  }
}

std::vector<double> sample_times(const DiagnosePlan& plan, std::size_t samples) {
  std::vector<double> time(samples + 1);
  for (std::size_t s = 0; s <= samples; ++s)
    time[s] = static_cast<double>(sample_step(s, samples, steps_of(plan))) * plan.dt;
  return time;
}

/// Runs the solver from `start` with dt 2^doublings, ..., dt, ..., dt/8 over coarse_steps of the coarsest.
Convergence compare_levels(const DiagnosePlan& plan, const std::vector<double>& start, int doublings,
                           std::size_t coarse_steps) {
  Convergence result;
  result.horizon = static_cast<double>(coarse_steps << doublings) * plan.dt;
  std::vector<std::vector<double>> ends;  // resolved variables at the end, per level
  for (int level = 0; level <= doublings + 3; ++level) {
    const double dt = plan.dt * std::ldexp(1.0, doublings - level);
    const auto run = plan.system->make_solver(dt);
    run->start(start);
    for (std::size_t i = 0; i < coarse_steps << level; ++i) run->step();
    ends.emplace_back(plan.system->resolved_size());
    run->resolved(ends.back());
    result.levels.push_back({.dt = dt, .difference = 0, .order = std::nullopt});
    throw_if_interrupted();
  }
  for (const double value : ends.back()) result.scale = std::max(result.scale, std::abs(value));
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    double& difference = result.levels[i].difference;
    for (std::size_t j = 0; j < ends[i].size(); ++j) {
      const double here = std::abs(ends[i][j] - ends[i + 1][j]);
      if (!(here <= difference)) difference = here;  // a NaN stays
    }
  }
  result.levels.pop_back();  // the finest has nothing to be compared with
  double smallest = HUGE_VAL;
  for (const auto& level : result.levels) smallest = std::min(smallest, level.difference);
  const double rounding = std::min(10 * smallest, 1e-11 * result.scale);
  for (std::size_t i = 0; i + 1 < result.levels.size(); ++i) {
    const double here = result.levels[i].difference, next = result.levels[i + 1].difference;
    if (!std::isfinite(here) || !std::isfinite(next)) continue;  // too coarse
    if (next <= rounding) break;
    result.levels[i].order = std::log2(here / next);
    result.order = result.levels[i].order;
  }
  result.error = result.levels[static_cast<std::size_t>(doublings)].difference * 16 / 15;  // Richardson
  return result;
}

}  // namespace

DiagnosePlan DiagnosePlan::of(const Experiment& experiment, const std::string& name,
                              std::size_t trajectories) {
  for (const SplitPlan& split : experiment.data.splits) {
    if (split.name != name) continue;
    if (split.continues)
      throw UsageError("split {} continues {}: diagnose that one instead", name, *split.continues);
    DiagnosePlan plan;
    plan.system = experiment.system;
    plan.initial = split.initial;
    plan.purpose = split.purpose;
    plan.seed = experiment.data.seed;
    plan.dt = experiment.data.dt;
    plan.horizon = split.horizon;
    plan.trajectories = std::min(trajectories, split.trajectories);
    return plan;
  }
  throw UsageError("{} has no split {}", experiment.config.file(), name);
}

LyapunovEstimate lyapunov_exponent(const DiagnosePlan& plan) {
  LyapunovEstimate result;
  const auto rates =
      for_each_trajectory(plan, "Lyapunov exponent", [&](std::size_t index, FullSolver& solver) {
        const RandomStream direction(plan.seed, Purpose::diagnosis, static_cast<std::uint32_t>(index));
        const double rate = growth_rate(*plan.system, solver, plan.dt, steps_of(plan), direction);
        check_finite(plan, index, steps_of(plan), rate);
        return std::vector{rate};
      });
  for (const auto& rate : rates) result.by_trajectory.push_back(rate[0]);
  const auto n = static_cast<double>(plan.trajectories);
  result.time = n * plan.horizon * 4 / 5;
  for (const double value : result.by_trajectory) result.exponent += value / n;
  if (plan.trajectories > 1) {
    double square = 0;
    for (const double value : result.by_trajectory) square += std::pow(value - result.exponent, 2);
    result.standard_error = std::sqrt(square / (n - 1) / n);
  }
  return result;
}

std::vector<QuantityHistory> quantity_histories(const DiagnosePlan& plan, std::size_t samples) {
  samples = std::min(samples, steps_of(plan));
  std::vector<double> any_state(plan.system->full_size());
  RandomStream random(plan.seed, plan.purpose, 0);
  plan.initial->sample(0, random, any_state);
  const std::vector<Diagnostic> quantities = plan.system->diagnostics(any_state);  // their names
  const auto seen =  // of a trajectory, (sample, quantity)
      for_each_trajectory(plan, "conserved quantities", [&](std::size_t index, FullSolver& solver) {
        std::vector<double> values;
        sample_trajectory(plan, samples, solver, [&](std::size_t, std::size_t step) {
          for (const Diagnostic& quantity : plan.system->diagnostics(solver.state())) {
            check_finite(plan, index, step, quantity.value);
            values.push_back(quantity.value);
          }
        });
        return values;
      });

  std::vector<QuantityHistory> result(quantities.size());
  for (std::size_t q = 0; q < result.size(); ++q) {
    QuantityHistory& history = result[q];
    history.name = quantities[q].name;
    history.conserved = quantities[q].conserved;
    history.time = sample_times(plan, samples);
    for (std::size_t i = q; i < seen[0].size(); i += result.size()) history.value.push_back(seen[0][i]);
    for (const auto& trajectory : seen) {
      const double first = trajectory[q];
      for (std::size_t i = q; i < trajectory.size(); i += result.size()) {
        const double change = std::abs(trajectory[i] - first);
        history.drift = std::max(history.drift, change);
        if (first != 0) history.relative = std::max(history.relative.value_or(0), change / std::abs(first));
      }
    }
  }
  return result;
}

std::optional<SpectrumDecay> spectrum_decay(const DiagnosePlan& plan, std::size_t samples) {
  if (!dynamic_cast<const FourierSystem*>(plan.system.get())) return std::nullopt;
  samples = std::min(samples, steps_of(plan));
  const std::size_t modes = plan.system->full_size() / 2;  // theta_0..theta_{Nx/2}
  const auto seen = for_each_trajectory(plan, "spectrum", [&](std::size_t index, FullSolver& solver) {
    std::vector<double> sizes((samples + 1) * modes);
    sample_trajectory(plan, samples, solver, [&](std::size_t s, std::size_t step) {
      for (std::size_t k = 0; k < modes; ++k) {
        const double size = std::hypot(solver.state()[2 * k], solver.state()[2 * k + 1]);
        check_finite(plan, index, step, size);
        sizes[s * modes + k] = size;
      }
    });
    return sizes;
  });

  SpectrumDecay result;
  result.time = sample_times(plan, samples);
  for (std::size_t s = 0; s <= samples; ++s) {
    std::vector<double> magnitude(modes);
    for (const auto& trajectory : seen)
      for (std::size_t k = 0; k < modes; ++k)
        magnitude[k] = std::max(magnitude[k], trajectory[s * modes + k]);
    const auto upper_third = magnitude.begin() + static_cast<std::ptrdiff_t>(2 * modes / 3);
    const double largest = *std::max_element(magnitude.begin(), magnitude.end());
    result.tail.push_back(largest > 0 ? *std::max_element(upper_third, magnitude.end()) / largest : 0);
    // Least squares of log |theta_k| over the modes before the spectrum first sinks into rounding.
    double n = 0, sum_k = 0, sum_kk = 0, sum_log = 0, sum_k_log = 0;
    for (std::size_t k = 1; k < modes && magnitude[k] > 1e-13 * largest; ++k) {
      const double x = static_cast<double>(k), y = std::log(magnitude[k]);
      n += 1, sum_k += x, sum_kk += x * x, sum_log += y, sum_k_log += x * y;
    }
    result.rate.push_back(n < 2 ? 0 : (sum_k * sum_log - n * sum_k_log) / (n * sum_kk - sum_k * sum_k));
    result.magnitude.push_back(std::move(magnitude));
  }
  return result;
}

Convergence solver_convergence(const DiagnosePlan& plan) {
  Convergence result;
  DiagnosePlan single = plan;
  single.trajectories = 1;
  const Alone each_for_itself;  // one trajectory, and a result of many parts
  for_each_trajectory(single, "solver convergence", [&](std::size_t, FullSolver& solver) {
    const std::vector<double> nothing;
    const std::vector<double> start(solver.state().begin(), solver.state().end());
    const double limit = plan.system->largest_stable_dt().value_or(HUGE_VAL);
    // From 100 steps of 64 dt to 100 of dt: as coarse and long as is stable and can be followed at all.
    for (int doublings = 6; doublings >= 0; --doublings) {
      const std::size_t factor = std::size_t{1} << doublings;
      const bool too_coarse = plan.dt * static_cast<double>(factor) > 0.95 * limit || factor > steps_of(plan);
      if (doublings > 0 && too_coarse) continue;
      const std::size_t coarse_steps = std::min<std::size_t>(steps_of(plan) / factor, 100);
      result = compare_levels(plan, start, doublings, coarse_steps);
      if (result.error < 1e-3 * result.scale) return nothing;
    }
    if (!std::isfinite(result.error))
      throw Error("the {} solver blew up before t = {:g}; try a smaller dt", plan.system->name(),
                  result.horizon);
    return nothing;
  });
  return result;
}

std::vector<ClosureStatistics> closure_statistics(const DiagnosePlan& plan, std::size_t samples) {
  samples = std::min(samples, steps_of(plan));
  const std::size_t c = plan.system->closure_size(), times = samples + 1;
  const auto targets = plan.system->closure_targets();
  // Of a trajectory, the closure (times, c), then the reduced right-hand side's squares, summed (c).
  const auto closure =
      for_each_trajectory(plan, "closure statistics", [&](std::size_t index, FullSolver& solver) {
        std::vector<double> y(plan.system->resolved_size()), rate(y.size()), values((times + 1) * c);
        sample_trajectory(plan, samples, solver, [&](std::size_t s, std::size_t step) {
          const auto row = std::span(values).subspan(s * c, c);
          solver.closure(row);
          solver.resolved(y);
          plan.system->reduced_rhs(y.data(), rate.data());
          for (std::size_t j = 0; j < c; ++j) {
            check_finite(plan, index, step, row[j]);
            values[times * c + j] += rate[targets[j]] * rate[targets[j]];
          }
        });
        return values;
      });

  std::vector<ClosureStatistics> result(c);
  const double n = static_cast<double>(plan.trajectories * times);
  for (std::size_t j = 0; j < c; ++j) {
    ClosureStatistics& statistics = result[j];
    statistics.name = plan.system->closure_names()[j];
    statistics.minimum = statistics.maximum = closure[0][j];
    double square = 0, reduced = 0;
    for (std::size_t i = 0; i < plan.trajectories; ++i) {
      reduced += closure[i][times * c + j] / n;
      for (std::size_t s = 0; s < times; ++s) {
        const double value = closure[i][s * c + j];
        statistics.mean += value / n;
        square += value * value / n;
        statistics.minimum = std::min(statistics.minimum, value);
        statistics.maximum = std::max(statistics.maximum, value);
      }
    }
    statistics.share = reduced > 0 ? std::sqrt(square / reduced) : 0;
    // Over all pairs of samples `lag` apart.
    const auto covariance = [&](std::size_t lag) {
      double sum = 0;
      for (const auto& trajectory : closure)
        for (std::size_t s = 0; s + lag < times; ++s)
          sum +=
              (trajectory[s * c + j] - statistics.mean) * (trajectory[(s + lag) * c + j] - statistics.mean);
      return sum / static_cast<double>(plan.trajectories * (times - lag));
    };
    const double variance = covariance(0), threshold = std::exp(-1.0);
    statistics.deviation = std::sqrt(variance);
    double before = 1;
    for (std::size_t lag = 1; lag <= samples / 2 && variance > 0; ++lag) {
      const double correlation = covariance(lag) / variance;
      if (correlation < threshold) {  // between the two lags, linearly
        const double lags = static_cast<double>(lag - 1) + (before - threshold) / (before - correlation);
        statistics.correlation_time = lags * plan.horizon / static_cast<double>(samples);
        break;
      }
      before = correlation;
    }
  }
  return result;
}

}  // namespace mac
