// Long-time means of a full model, for hidden variables that the reduced model freezes.
#pragma once

#include <mac/system.hpp>
#include <string>

#include "systems/equations/program.hpp"

namespace mac::equations {

/// Mean of every number of the state over a few trajectories from `initial`, after they have settled. The step
/// is taken from the stiffness that they show. Throws Error, naming the system, if they blow up.
std::vector<double> state_means(const Program& rates, const InitialCondition& initial,
                                const std::string& name);

}  // namespace mac::equations
