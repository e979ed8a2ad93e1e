// Reduced equations for data that come without them. Along the data R^(y) = dy/dt - C is known, so a
// polynomial is fitted to it. It is good enough to judge by free rollouts which of several closures is the
// better one; the closure itself never depends on it.
#pragma once

#include <mac/data.hpp>

namespace mac {

struct FittedEquations {
  std::shared_ptr<const System> system;  // the recorded one with the polynomial as its right-hand side
  std::size_t degree = 0;
  double error = 0;  // on validation data, the largest over the equations: relative to the closure's size in
                     // an equation that has one, to dy/dt in the others
};

/// The polynomial of the degree that fits the validation data best. Takes the time derivative by differences
/// of fourth order. None if the trajectories are too short for them.
std::optional<FittedEquations> fit_equations(std::shared_ptr<const System> recorded, const DataSplit& train,
                                             const DataSplit& validation, double dt);

}  // namespace mac
