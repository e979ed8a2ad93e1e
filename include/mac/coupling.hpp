// One step of the reduced equations with a closure that is given, not evaluated, inside the step.
#pragma once

#include <mac/hold.hpp>
#include <mac/system.hpp>

namespace mac {

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
