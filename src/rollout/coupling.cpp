#include <mac/coupling.hpp>
#include <mac/error.hpp>

#include "rollout/coupled_rk4.hpp"

namespace mac {

namespace {

constexpr std::size_t capacity = 64;

CoupledRk4 coupled_rk4(const System& system, double dt, HeldClosure held) {
  const std::size_t d = system.resolved_size();
  if (d > capacity) throw Error("coupled_step handles at most {} resolved variables, not {}", capacity, d);
  const auto targets = system.closure_targets();
  return {d, targets.size(), targets.data(), dt, held.hold == Hold::linear, held.target == Target::mean};
}

}  // namespace

void coupled_step(const System& system, double dt, HeldClosure held, const double* closure,
                  const double* previous, double* y) {
  const auto rhs = [&](const double* at, double* rate) { system.reduced_rhs(at, rate); };
  coupled_rk4(system, dt, held).step<capacity>(rhs, closure, previous, y);
}

void coupled_step_adjoint(const System& system, double dt, HeldClosure held, const double* closure,
                          const double* previous, const double* y, const double* d_next, double* d_y,
                          double* d_closure, double* d_previous) {
  const auto rhs = [&](const double* at, double* rate) { system.reduced_rhs(at, rate); };
  const auto add_vjp = [&](const double* at, const double* adjoint, double* grad) {
    system.reduced_rhs_vjp(at, adjoint, grad);
  };
  coupled_rk4(system, dt, held)
      .adjoint<capacity>(rhs, add_vjp, closure, previous, y, d_next, d_y, d_closure, d_previous);
}

}  // namespace mac
