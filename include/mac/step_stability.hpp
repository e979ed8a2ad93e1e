// How stiff the reduced equations are, and how they are taken over a closure step: known before anything is trained.
#pragma once

#include <mac/data.hpp>
#include <mac/reduced_step.hpp>
#include <optional>
#include <string>

namespace mac {

struct StepStability {
  double largest = 0;         // |lambda| dt, the largest over the states and the decaying modes
  double unstable_share = 0;  // of the states with a decaying mode that RK4 amplifies
  double rk4_step = 0;        // the largest step that RK4 takes at all of them
  std::optional<double> etdrk4_step =
      std::nullopt;  // the same without the linear part that the system declares
};

/// Eigenvalues lambda of the reduced Jacobian at up to 64 states spread over the training data (else another
/// split), against RK4's region of stability, which ends at |lambda| dt = 2.78 on the negative real axis.
/// None without equations, and for more than 512 variables.
std::optional<StepStability> step_stability(const System& system, const DataFile& data);

/// A closure step of the data as the plan says. What it leaves open: one step of RK4 where that is stable, else
/// ETDRK4 where the system declares a linear part, else RK4; in as few substeps as are stable, with a margin.
/// Throws UsageError with the step that would be needed where these are more than most_substeps.
ReducedStep choose_step(const System& system, const RolloutPlan& plan, const DataFile& data);

/// What is worth saying of the step: that the equations are stiff and what was chosen, or that the plan's own step is
/// beyond stability. None where one step of RK4 does.
std::optional<std::string> stability_warning(const System& system, const RolloutPlan& plan,
                                             const DataFile& data);

}  // namespace mac
