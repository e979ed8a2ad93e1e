// What the closures for a ring of equal variables (Lorenz '96) share: one formula, fitted to all variables
// pooled, applied to each.
#pragma once

#include <algorithm>
#include <cmath>
#include <mac/data.hpp>
#include <mac/error.hpp>
#include <span>
#include <string>
#include <vector>

#include "baselines/least_squares.hpp"

namespace mac {

/// UsageError unless the system's variables form a ring, each with its own closure.
inline void require_ring(const System& system, std::string_view model) {
  const auto symmetries = system.symmetries();
  const bool ring = std::any_of(symmetries.begin(), symmetries.end(), [](const Symmetry& symmetry) {
    return symmetry.kind == Symmetry::Kind::cyclic_shift;
  });
  if (!ring || system.closure_size() != system.resolved_size())
    throw UsageError("{} is a closure for systems with cyclic symmetry (lorenz96), not for {}", model,
                     system.name());
}

/// The same for an entry of [[models]], which is fitted to the train split.
inline void require_ring(const ConfigTable& table, const System& system, const DataPlan& data,
                         std::string_view kind) {
  const auto is_shift = [](const Symmetry& symmetry) {
    return symmetry.kind == Symmetry::Kind::cyclic_shift;
  };
  const auto symmetries = system.symmetries();
  if (std::ranges::none_of(symmetries, is_shift))
    table.fail("kind",
               fmt::format("{} is for a ring of variables (lorenz96), not for {}", kind, system.name()));
  if (std::ranges::find(data.splits, "train", &SplitPlan::name) == data.splits.end())
    table.fail("", fmt::format("{} is fitted to a [data.train]", kind));
}

/// UsageError unless the split is saved at the step the model was fitted at.
inline void require_step(const DataSplit& split, double step, std::string_view model) {
  const double dt = (split.time().back() - split.time().front()) / static_cast<double>(split.times() - 1);
  if (std::abs(dt / step - 1) > 1e-6)
    throw UsageError("{} was fitted at a step of {:g}, split {} is saved every {:g}", model, step,
                     split.name(), dt);
}

/// Calls visit(x, u, first) for every saved interval of every trajectory: x and u (N) are its initial state
/// and its closure, of the given kind; first says that a trajectory begins.
template <class Visit>
void for_each_step(const DataSplit& split, Target target, Visit&& visit) {
  constexpr std::size_t block = 4096;
  const std::size_t d = split.resolved_size(), c = split.closure_size(), steps = split.times() - 1;
  std::vector<double> x(block * d), u(block * c);
  for (std::size_t i = 0; i < split.trajectories(); ++i)
    for (std::size_t first = 0; first < steps; first += block) {
      const std::size_t count = std::min(block, steps - first);
      split.read_resolved(i, first, count, x.data());
      if (target == Target::instant)
        split.read_closure(i, first, count, u.data());
      else
        split.read_closure_mean(i, first, count, u.data());
      for (std::size_t t = 0; t < count; ++t) visit(&x[t * d], &u[t * c], first + t == 0);
    }
}

struct CyclicFit {
  std::vector<double> coefficients;
  double r_squared;
};

/// Least squares of the closure on features(x, k, row), pooled over time and variables.
template <class Features>
CyclicFit fit_cyclic(const DataSplit& split, Target target, std::size_t columns, Features&& features) {
  const std::size_t n = split.resolved_size();
  LeastSquares fit(columns), mean(1);
  std::vector<double> row(columns);
  const double one = 1;
  for_each_step(split, target, [&](const double* x, const double* u, bool) {
    for (std::size_t k = 0; k < n; ++k) {
      features(std::span(x, n), k, row.data());
      fit.add(row.data(), u[k]);
      mean.add(&one, u[k]);  // its residual is the total sum of squares
    }
  });
  auto solution = fit.solve();
  return {std::move(solution.coefficients), 1 - solution.residual / mean.solve().residual};
}

}  // namespace mac
