// Largest Lyapunov exponents: the rate at which two runs that begin side by side part, or meet.
//
//   lambda = 1/T sum_n ln( |delta_n| / eps ),   delta_n back to the length eps after every step
//
// (Benettin et al. 1980). Of a model with a closure the map that is iterated has more than the resolved variables for its
// state: the memory of the closure, and the closure of the step before, which a linear hold extrapolates from. delta is
// the difference of all of it; its length is that of resolved variables, in units of their size, and memory.
// A stochastic closure reads the same noise in both runs. growth_rate (data/growth_rate.hpp) is the same of the full model.
#pragma once

#include <mac/rollout.hpp>
#include <vector>

#include "rollout/group.hpp"

namespace mac {

/// Two groups of the same trajectories, `first` and on of their split, which begin with `start`. Rates are means over
/// the times from the first quarter on, when delta has turned to where it grows fastest. NaN for a trajectory that blows
/// up, or where delta is zero.
std::vector<double> parting_rates(ClosureGroup& one, ClosureGroup& other, const GroupTask& task,
                                  const GroupStart& start, std::size_t first);

}  // namespace mac
