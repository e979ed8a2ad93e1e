// MAC's C++ interface to a trained closure inside a simulation: RAII and spans over mac/mac.h. Header-only;
// link mac::runtime.
//
//   mac::runtime::Model model("closure.safetensors");
//   mac::runtime::State state = model.state();          // one column
//   state.step(y, closure);                             // y (inputs) -> closure (outputs), physical units
//
// and, with the time integration included,
//
//   mac::runtime::CoupledStepper stepper(model, dt, [](auto y, auto dydt) { ... });
//   stepper.step(y);                                    // dy/dt = R(y) + C over one closure step
//
// Every failure is a mac::runtime::Error with the C interface's code and sentence.
#pragma once

#include <mac/coupled_stepper.hpp>  // Coupling, CoupledStepper
#include <mac/runtime_state.hpp>    // Error, Model, State, Tape
