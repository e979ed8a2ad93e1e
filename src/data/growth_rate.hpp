// The largest Lyapunov exponent of a full model: how fast two trajectories part that begin side by side.
#pragma once

#include <mac/random.hpp>
#include <mac/system.hpp>

namespace mac {

/// Mean logarithmic growth per time of a small difference from the solver's trajectory, over `steps` steps of dt from
/// where it is; the first fifth, in which the difference turns to where it grows fastest, does not count. `random` chooses
/// the difference. NaN after a blow-up.
double growth_rate(const System& system, FullSolver& solver, double dt, std::size_t steps,
                   RandomStream random);

}  // namespace mac
