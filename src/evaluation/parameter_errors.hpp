// Errors of trajectories against the parameters in which they differ.
#pragma once

#include <mac/evaluation.hpp>

namespace mac {

class ParameterErrors {
 public:
  explicit ParameterErrors(std::vector<std::string> names) : names_(std::move(names)) {}

  /// One trajectory: its parameters, and its error; NaN: it blew up. `range` is that of the training data.
  void add(std::span<const double> parameters, double error, const std::optional<ResolvedRange>& range);

  /// Of each parameter that has more than one value, by its values; where they are more than `most_groups`,
  /// neighbours are put together, those inside of the training range apart from those outside.
  std::vector<ParameterMetrics> finish() const;

  static constexpr std::size_t most_groups = 12;

 private:
  struct Trajectory {
    std::vector<double> parameters;
    double error;
  };
  std::vector<std::string> names_;
  std::vector<Trajectory> trajectories_;
  std::optional<ResolvedRange> range_;
};

}  // namespace mac
