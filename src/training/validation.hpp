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

/// Free rollouts over pieces of the validation trajectories, from empty memory.
class RolloutValidation {
 public:
  struct Plan {
    std::size_t intervals = 0;  // steps that run free, and are compared with the data
    std::size_t pieces = 0;
    std::size_t history = 0;  // steps before them in which the network reads the true past
    double beyond = 0;        // the runs go on for this many times `intervals`, without data to compare with
  };

  /// Keeps spread_pieces in memory.
  RolloutValidation(const DataSplit& split, const Plan& plan);

  /// The mean relative L2 error over pieces and resolved variables; infinity if a rollout blows up.
  ///
  /// With `beyond` it must rank models that are all bad: pieces count at most `lost_error` (2 is what two
  /// unrelated signals of opposite sign have), a variable that is almost absent from a piece counts by a
  /// tenth of its scale, and the share of pieces that stray from the data's range is added, as far as it is not over ten
  /// times the error.
  template <class T>
  double error(const NetworkShape& shape, std::span<const T> parameters, const LossContext& context) const;

  /// The same without a closure.
  double error_without_closure(const LossContext& context) const;
  /// The same with the closure of the data: what is left is the error of its coupling. `split` is the one of the
  /// constructor; only without `beyond`, where there are no data.
  double error_of_exact_closure(const DataSplit& split, const LossContext& context) const;

 private:
  struct Runs {
    std::vector<double> errors, norms;  // (count, d): sums of squares
    std::vector<char> blown_up, strayed;
  };
  /// predict(n, y, closure): the closures (count, c) of step n
  template <class Predict>
  Runs run(const LossContext& context, const Predict& predict) const;
  double mean_error(const Runs& runs, const LossContext& context) const;
  const double* truth(std::size_t i, std::size_t n) const;
  std::size_t steps() const;  // that a run takes, those beyond the data included
  /// What comes from outside at step n, (count, e), in `room`; null: nothing does.
  const double* given(std::size_t n, std::vector<double>& room) const;

  Plan plan_;
  std::size_t count_ = 0, d_, e_;
  std::vector<ValidationPiece> pieces_;
  std::vector<double> truth_;  // (count, history + intervals + 1, d)
  std::vector<char> known_;    // (count, history + intervals + 1): of the data, not filled in; empty: all are
  std::vector<double> given_;  // (count, steps, e): from outside
  std::vector<std::shared_ptr<const System>> systems_;  // (count), where parameters vary
  std::vector<double> low_, high_;  // (d): the range of the data, widened by half on either side
};

/// A stage's loss on the validation split.
class LossValidation {
 public:
  LossValidation(const DataSplit& split, Target target, const StagePlan& stage, std::size_t times,
                 std::size_t samples, std::size_t frame_modes = 0);

  template <class T>
  double error(const T* parameters, Loss<T>& loss) const {
    return loss.evaluate(parameters, batch_, nullptr);
  }

 private:
  Batch batch_;
};

}  // namespace mac
