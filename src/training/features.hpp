// What a network reads along a trajectory of a data file.
#pragma once

#include <mac/data.hpp>

#include "coupling/fourier_frame.hpp"
#include "coupling/input_map.hpp"

namespace mac {

/// x (times, sites, features) of the first `times` times of a trajectory, in physical units, and in its frame where the
/// network has one.
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
  if (inputs.frame_modes() > 0)
    enter_frame(inputs.frame_modes(), y.data(), x.data(), times, inputs.features());
}

/// C (times, c) of the first `times` times of a trajectory, as its target is, in the same frame.
inline void read_closures(const DataSplit& split, const InputMap& inputs, std::size_t trajectory,
                          Target target, std::size_t times, std::vector<double>& closure) {
  const std::size_t c = split.closure_size();
  closure.resize(times * c);
  if (target == Target::instant)
    split.read_closure(trajectory, 0, times, closure.data());
  else
    split.read_closure_mean(trajectory, 0, times, closure.data());
  if (inputs.frame_modes() == 0) return;
  std::vector<double> first(split.resolved_size());
  split.read_resolved(trajectory, 0, 1, first.data());
  enter_frame(inputs.frame_modes(), first.data(), closure.data(), times, c);
}

}  // namespace mac
