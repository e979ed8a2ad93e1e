#include "data/growth_rate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mac/progress.hpp>
#include <vector>

namespace mac {

namespace {

double distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// a + (b - a) length / |b - a|
void at_distance(std::span<const double> a, std::span<const double> b, double length, std::span<double> out) {
  const double factor = length / distance(a, b);
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = a[i] + factor * (b[i] - a[i]);
}

}  // namespace

double growth_rate(const System& system, FullSolver& solver, double dt, std::size_t steps,
                   RandomStream random) {
  const std::size_t size = system.full_size();
  const std::size_t interval = std::clamp<std::size_t>(steps / 100, 1, 10), aligned = steps / 5;
  // Far above rounding, far below where growth stops being linear.
  const double apart = 1e-8 * std::max(1.0, distance(solver.state(), std::vector<double>(size)));

  // Two sampled states differ in a direction that keeps what every state keeps (a vanishing mean, say).
  const auto condition = system.initial_condition(nullptr);
  std::vector<double> one(size), other(size), shifted(size);
  condition->sample(0, random, one);
  condition->sample(0, random, other);
  at_distance(one, other, apart, other);
  for (std::size_t i = 0; i < size; ++i) shifted[i] = solver.state()[i] + (other[i] - one[i]);

  const auto neighbour = system.make_solver(dt);
  neighbour->start(shifted);
  double growth = 0;
  std::size_t counted = 0;
  for (std::size_t step = interval; step <= steps; step += interval) {
    for (std::size_t i = 0; i < interval; ++i) solver.step(), neighbour->step();
    const double now = distance(solver.state(), neighbour->state());
    if (!std::isfinite(now)) return std::numeric_limits<double>::quiet_NaN();
    if (step > aligned) growth += std::log(now / apart), counted += interval;
    at_distance(solver.state(), neighbour->state(), apart, shifted);
    neighbour->start(shifted);
    throw_if_interrupted();
  }
  return growth / (static_cast<double>(counted) * dt);
}

}  // namespace mac
