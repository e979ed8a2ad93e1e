// Systems and trajectories for the tests, made the way an experiment makes them.
#pragma once

#include <cmath>
#include <mac/config.hpp>
#include <mac/random.hpp>
#include <mac/system.hpp>
#include <memory>
#include <string>
#include <vector>

namespace mac::test {

/// A system from the text of its [system] table: make("name = 'burgers'\ngrid = 128").
inline std::unique_ptr<System> make(const std::string& table) {
  return make_system(ConfigTable::parse(table, "test.toml"));
}

/// The initial condition that the text of an `initial` table describes.
inline std::unique_ptr<InitialCondition> initial(const System& system, const std::string& table) {
  const auto parsed = ConfigTable::parse(table, "test.toml");
  return system.initial_condition(&parsed);
}

/// A full state, sampled.
inline std::vector<double> sample(const System& system, const InitialCondition& condition,
                                  std::size_t index) {
  RandomStream random(1, Purpose::test_data, static_cast<std::uint32_t>(index));
  std::vector<double> state(system.full_size());
  condition.sample(index, random, state);
  return state;
}

/// The field sin x of a Fourier system.
inline std::vector<double> sin_x(const System& system) {
  return sample(system, *initial(system, "kind = 'fields'\nfields = ['sin']"), 0);
}

/// The full state after `steps` steps of dt.
inline std::vector<double> advance(const System& system, const std::vector<double>& state, double dt,
                                   std::size_t steps) {
  const auto solver = system.make_solver(dt);
  solver->start(state);
  for (std::size_t i = 0; i < steps; ++i) solver->step();
  return {solver->state().begin(), solver->state().end()};
}

inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// log2 of the error ratio between dt and dt/2, against `exact`.
inline double measured_order(const System& system, const std::vector<double>& start,
                             const std::vector<double>& exact, double dt, std::size_t steps) {
  return std::log2(distance(advance(system, start, dt, steps), exact) /
                   distance(advance(system, start, dt / 2, 2 * steps), exact));
}

}  // namespace mac::test
