// A batch, a network and scales for the losses of a system.
#pragma once

#include <memory>

#include "training/losses.hpp"
#include "training/systems.hpp"

namespace mac::test {

struct Problem {
  std::shared_ptr<const System> system;
  NetworkShape shape;
  Normalisation normalisation;
  Batch batch;
  std::vector<double> parameters;
};

/// A batch of random walks near typical values; the gradient must be right whatever the data are.
inline Problem random_problem(const std::string& name, LayerKind kind, SampleShape sample, bool noisy) {
  Problem problem;
  problem.system = system_named(name);
  const std::size_t d = problem.system->resolved_size(), c = problem.system->closure_size();
  problem.shape = {kind, d, c, 4, 2, has_states(kind) ? 3u : 0u};
  RandomStream random(11, Purpose::noise, 7);
  problem.parameters = initial_parameters(problem.shape, 4);
  for (double& parameter : problem.parameters) parameter += 0.1 * random.normal();
  const auto positive = [&](std::size_t n) {
    std::vector<double> values(n);
    for (double& value : values) value = random.uniform(0.5, 1.5);
    return values;
  };
  problem.normalisation = {normal_values(d, 0.1, random), positive(d), normal_values(c, 0.1, random),
                           positive(c)};
  problem.batch = {3, sample, normal_values(3 * sample.states * d, 0.4, random),
                   normal_values(3 * sample.closures * c, 0.4, random),
                   noisy ? normal_values(3 * sample.states * d, 0.1, random) : std::vector<double>{}};
  return problem;
}

}  // namespace mac::test
