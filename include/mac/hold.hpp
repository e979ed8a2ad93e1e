// How a closure is coupled to the reduced equations: what is predicted, and what becomes of it within a step.
#pragma once

#include <string_view>

namespace mac {

/// The closure over a step of the reduced model: held constant, extrapolated from the last two predictions,
/// or predicted anew at every Runge-Kutta stage, from the stage's state and the memory of the steps before.
enum class Hold { zero, linear, stage };
std::string_view to_string(Hold hold);
Hold hold_from(std::string_view name);  // throws UsageError

/// What a closure model predicts at step n: the closure at t_n, or its mean over [t_n, t_{n+1}].
enum class Target { instant, mean };
std::string_view to_string(Target target);
Target target_from(std::string_view name);  // throws UsageError

/// The closure over one step as a straight line C(tau) = value + slope (tau/dt - pivot), tau in [0, dt].
/// hold = zero: slope 0. hold = linear: the slope of the last two predictions; the line goes through the
/// prediction at the start of the step (instant) or in its middle (mean), so that a mean stays a mean.
struct HeldClosure {
  Hold hold = Hold::zero;
  Target target = Target::instant;
  bool operator==(const HeldClosure&) const = default;
};

}  // namespace mac
