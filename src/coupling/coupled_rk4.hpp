// The coupled step of one trajectory with the holds zero and linear, and its gradient, for the host and for a
// CUDA device; the method is in mac/held_rk4.hpp (paper, apdx_rk4_zero_order_holding, equations without numbers).
#pragma once

#include <cstddef>
#include <mac/held_rk4.hpp>

namespace mac {

/// rhs(y, dydt) is R^; `Capacity` is the room for resolved variables, so that a step needs no allocation.
struct CoupledRk4 {
  static constexpr std::size_t stages = held_rk4::stages;
  std::size_t d, c;            // resolved variables, closures
  const std::size_t* targets;  // (c): closure j is added to equation targets[j]
  double dt;
  HeldClosure held;

  template <std::size_t Capacity>
  struct Stages {
    double y[stages][Capacity], k[stages][Capacity];
    MAC_HOST_DEVICE double* state(std::size_t i) { return y[i]; }
    MAC_HOST_DEVICE double* rate(std::size_t i) { return k[i]; }
  };

  /// Advances y; previous is null in the first step.
  template <std::size_t Capacity, class Rhs>
  MAC_HOST_DEVICE void step(const Rhs& rhs, const double* closure, const double* previous, double* y) const {
    Stages<Capacity> at;
    held_rk4::step(
        columns(), dt, at, rates(rhs),
        [&](std::size_t i, const double*) { return line(closure, previous, i); }, y);
  }

  /// From d_next adds to d_y, d_closure, d_previous; add_vjp(y, adjoint, grad) adds (dR^/dy)^T adjoint.
  template <std::size_t Capacity, class Rhs, class AddVjp>
  MAC_HOST_DEVICE void adjoint(const Rhs& rhs, const AddVjp& add_vjp, const double* closure,
                               const double* previous, const double* y, const double* d_next, double* d_y,
                               double* d_closure, double* d_previous) const {
    Stages<Capacity> at;
    held_rk4::compute_stages(columns(), dt, y, at, rates(rhs),
                             [&](std::size_t i, const double*) { return line(closure, previous, i); });
    double d_rate[Capacity], d_stage[Capacity];
    held_rk4::adjoint(
        columns(), dt, at, [&](std::size_t i) { return line(closure, previous, i).share; }, add_vjp, d_next,
        d_rate, d_stage, d_y, d_closure, d_previous);
  }

 private:
  MAC_HOST_DEVICE held_rk4::Columns columns() const { return {1, d, c, targets}; }
  MAC_HOST_DEVICE held_rk4::StageClosure line(const double* closure, const double* previous,
                                              std::size_t stage) const {
    return {closure, previous, held_rk4::share(held, previous != nullptr, held_rk4::a(stage))};
  }
  template <class Rhs>
  MAC_HOST_DEVICE static auto rates(const Rhs& rhs) {
    return [&rhs](std::size_t, const double* y, double* k) { rhs(y, k); };
  }
};

}  // namespace mac
