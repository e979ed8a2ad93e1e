#include "systems/equations/means.hpp"

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <mac/random.hpp>
#include <mac/rk4.hpp>
#include <optional>

namespace mac::equations {

namespace {

constexpr std::size_t trajectories = 4, steps = 20'000, settling = steps / 4;
constexpr int halvings = 8;  // of a step that turns out too long

/// The largest growth |J v| / |v| that repeated multiplication by the Jacobian J shows, by differences.
double stiffness(const Program& rates, const std::vector<double>& z, RandomStream& random,
                 std::vector<double>& work) {
  const std::size_t n = z.size();
  std::vector<double> direction(n), above(n), below(n), shifted(n);
  for (double& v : direction) v = random.normal();
  double largest = 0;
  for (int i = 0; i < 20; ++i) {
    double length = 0, size = 1;
    for (std::size_t k = 0; k < n; ++k) length += direction[k] * direction[k], size += z[k] * z[k];
    if (length == 0) break;
    const double step = 1e-6 * std::sqrt(size / length);
    for (std::size_t k = 0; k < n; ++k) shifted[k] = z[k] + step * direction[k];
    rates.run(shifted.data(), above.data(), work.data());
    for (std::size_t k = 0; k < n; ++k) shifted[k] = z[k] - step * direction[k];
    rates.run(shifted.data(), below.data(), work.data());
    double image = 0;
    for (std::size_t k = 0; k < n; ++k) {
      const double v = (above[k] - below[k]) / (2 * step);
      image += v * v;
      direction[k] = v / std::sqrt(length);
    }
    if (std::isfinite(image)) largest = std::max(largest, std::sqrt(image / length));
  }
  return largest;
}

std::optional<std::vector<double>> try_step(const Program& rates, const InitialCondition& initial, double dt,
                                            std::vector<double>& work) {
  const std::size_t n = rates.input_size();
  std::vector<double> sums(n), z(n), stages(3 * n);
  for (std::size_t i = 0; i < trajectories; ++i) {
    RandomStream random(0, Purpose::diagnosis, static_cast<std::uint32_t>(i));
    initial.sample(0, random, z);
    for (std::size_t s = 0; s < steps; ++s) {
      rk4_step(n, dt, z.data(), stages.data(),
               [&](const double* at, double* rate) { rates.run(at, rate, work.data()); });
      if (s % 64 == 0 && !std::ranges::all_of(z, [](double v) { return std::isfinite(v); })) return {};
      if (s < settling) continue;
      for (std::size_t k = 0; k < n; ++k) sums[k] += z[k];
    }
  }
  for (double& sum : sums) sum /= static_cast<double>(trajectories * (steps - settling));
  if (!std::ranges::all_of(sums, [](double v) { return std::isfinite(v); })) return {};
  return sums;
}

}  // namespace

std::vector<double> state_means(const Program& rates, const InitialCondition& initial,
                                const std::string& name) {
  std::vector<double> work(rates.work_size()), z(rates.input_size());
  rates.prepare(work.data());
  double stiffest = 0;
  for (std::size_t i = 0; i < trajectories; ++i) {
    RandomStream random(0, Purpose::diagnosis, static_cast<std::uint32_t>(i));
    initial.sample(0, random, z);
    stiffest = std::max(stiffest, stiffness(rates, z, random, work));
  }
  double dt = 0.2 / std::max(stiffest, 1e-6);  // RK4 damps an oscillation by (0.2)^6/144 a step
  for (int i = 0; i < halvings; ++i, dt /= 2)
    if (auto means = try_step(rates, initial, dt, work)) return *means;
  throw Error(
      "the mean of the hidden variables of {} could not be found, its trajectories blow up; say in "
      "[system.reduced] what the reduced model takes for them",
      name);
}

}  // namespace mac::equations
