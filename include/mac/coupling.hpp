// One step of the reduced equations with a closure that is given, not evaluated, inside the step.
#pragma once

#include <mac/system.hpp>
#include <string_view>

namespace mac {

/// The closure over a step of the reduced model: held constant, extrapolated from the last two predictions,
/// or (only where a rollout's model allows it) predicted anew at every Runge-Kutta stage.
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
};

/// Advances y (resolved_size) by dt; `closure` and `previous` (closure_size) are this and the last
/// prediction, previous is null in the first step.
void coupled_step(const System& system, double dt, HeldClosure held, const double* closure,
                  const double* previous, double* y);

/// The gradient of coupled_step: from d_next, that of the state after the step, *adds* to d_y, d_closure and
/// d_previous those of its inputs. y is the state before the step; d_previous is null where previous is.
void coupled_step_adjoint(const System& system, double dt, HeldClosure held, const double* closure,
                          const double* previous, const double* y, const double* d_next, double* d_y,
                          double* d_closure, double* d_previous);

}  // namespace mac
