// What a network reads along a trajectory of a data file.
#pragma once

#include <mac/data.hpp>

#include "coupling/input_map.hpp"

namespace mac {

/// x (times, sites, features) of the first `times` times of a trajectory, in physical units.
inline void read_features(const DataSplit& split, const InputMap& inputs, std::size_t trajectory,
                          std::size_t times, std::vector<double>& x) {
  const std::size_t d = split.resolved_size(), e = inputs.given_size();
  std::vector<double> y(times * d), given(times * e);
  split.read_resolved(trajectory, 0, times, y.data());
  if (e > 0) split.read_inputs(trajectory, 0, times, given.data());
  x.clear();
  for (std::size_t t = 0; t < times; ++t)
    inputs.read(y.data() + t * d, given.data() + t * e,
                [&](std::size_t, std::size_t, double value) { x.push_back(value); });
}

}  // namespace mac
