#include <mac/coupling.hpp>
#include <mac/error.hpp>

#include "coupling/coupled_rk4.hpp"

namespace mac {

namespace {

// Room for resolved variables on the stack: as much as a Lorenz '96 ring or a set of Fourier modes may need,
// of which most need little.
constexpr std::size_t capacity = 64, largest_capacity = 4096;

CoupledRk4 coupled_rk4(const System& system, double dt, HeldClosure held) {
  const std::size_t d = system.resolved_size();
  if (d > largest_capacity)
    throw Error("coupled_step handles at most {} resolved variables, not {}", largest_capacity, d);
  const auto targets = system.closure_targets();
  return {d, targets.size(), targets.data(), dt, held};
}

}  // namespace

void coupled_step(const System& system, double dt, HeldClosure held, const double* closure,
                  const double* previous, double* y) {
  const auto rhs = [&](const double* at, double* rate) { system.reduced_rhs(at, rate); };
  const CoupledRk4 rk4 = coupled_rk4(system, dt, held);
  if (rk4.d <= capacity)
    rk4.step<capacity>(rhs, closure, previous, y);
  else
    rk4.step<largest_capacity>(rhs, closure, previous, y);
}

void coupled_step_adjoint(const System& system, double dt, HeldClosure held, const double* closure,
                          const double* previous, const double* y, const double* d_next, double* d_y,
                          double* d_closure, double* d_previous) {
  const auto rhs = [&](const double* at, double* rate) { system.reduced_rhs(at, rate); };
  const auto add_vjp = [&](const double* at, const double* adjoint, double* grad) {
    system.reduced_rhs_vjp(at, adjoint, grad);
  };
  const CoupledRk4 rk4 = coupled_rk4(system, dt, held);
  if (rk4.d <= capacity)
    rk4.adjoint<capacity>(rhs, add_vjp, closure, previous, y, d_next, d_y, d_closure, d_previous);
  else
    rk4.adjoint<largest_capacity>(rhs, add_vjp, closure, previous, y, d_next, d_y, d_closure, d_previous);
}

}  // namespace mac
