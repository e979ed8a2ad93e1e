// How good the weights are on data that training doesn't see.
#pragma once

#include <mac/data.hpp>
#include <mac/network.hpp>
#include <optional>

#include "training/losses.hpp"

namespace mac {

/// The mean relative L2 error of free rollouts over pieces of the validation trajectories, from empty memory.
class RolloutValidation {
 public:
  /// Keeps `pieces` of `intervals` steps in memory, evenly spread over the trajectories; they overlap where
  /// the trajectories are short, and there are fewer of them where there are fewer places to start.
  RolloutValidation(const DataSplit& split, std::size_t intervals, std::size_t pieces);

  /// Mean over pieces and resolved variables; infinity if a rollout blows up.
  template <class T>
  double error(const NetworkShape& shape, std::span<const T> parameters, const LossContext& context) const;

 private:
  std::size_t intervals_, count_ = 0, d_;
  std::vector<double> truth_;  // (count, intervals + 1, d)
};

/// A stage's loss on the validation split.
class LossValidation {
 public:
  LossValidation(const DataSplit& split, Target target, const StagePlan& stage, std::size_t times,
                 std::size_t samples);

  template <class T>
  double error(const T* parameters, Loss<T>& loss) const {
    return loss.evaluate(parameters, batch_, nullptr);
  }

 private:
  Batch batch_;
};

}  // namespace mac
