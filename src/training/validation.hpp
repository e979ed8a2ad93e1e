// How good the weights are on data that training doesn't see.
#pragma once

#include <mac/data.hpp>
#include <mac/network.hpp>
#include <optional>
#include <vector>

#include "training/losses.hpp"

namespace mac {

struct ValidationPiece {
  std::size_t trajectory, first;  // saved time it starts at
};

/// `pieces` pieces evenly spread over trajectories with `starts` times to start from: they overlap where the
/// trajectories are short, and are fewer where there are fewer places to start.
std::vector<ValidationPiece> spread_pieces(std::size_t trajectories, std::size_t starts, std::size_t pieces);

/// The mean relative L2 error of free rollouts over pieces of the validation trajectories, from empty memory.
class RolloutValidation {
 public:
  /// Keeps spread_pieces of `intervals` steps in memory.
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
