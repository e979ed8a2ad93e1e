// A coupled step and its gradient, for the host and for a CUDA device; the method is in mac/held_rk4.hpp
// (paper, apdx_rk4_zero_order_holding, equations without numbers).
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
  bool linear;  // the closure is extrapolated from the last two predictions, else held
  bool mean;    // predictions are means over their steps

  MAC_HOST_DEVICE double share(bool has_previous, std::size_t stage) const {
    return linear && has_previous ? held_rk4::share(held_rk4::a(stage), mean) : 0;
  }

  template <std::size_t Capacity>
  struct Stages {
    double y[stages][Capacity], k[stages][Capacity];
  };

  template <std::size_t Capacity, class Rhs>
  MAC_HOST_DEVICE void compute_stages(const Rhs& rhs, const double* closure, const double* previous,
                                      const double* y, Stages<Capacity>& out) const {
    for (std::size_t i = 0; i < stages; ++i) {
      held_rk4::stage_state(i, d, dt, y, i == 0 ? nullptr : out.k[i - 1], out.y[i]);
      rhs(static_cast<const double*>(out.y[i]), out.k[i]);
      const double s = share(previous != nullptr, i);
      for (std::size_t j = 0; j < c; ++j)
        out.k[i][targets[j]] += held_rk4::line(closure[j], previous ? previous[j] : 0, s);
    }
  }

  /// Advances y.
  template <std::size_t Capacity, class Rhs>
  MAC_HOST_DEVICE void step(const Rhs& rhs, const double* closure, const double* previous, double* y) const {
    Stages<Capacity> at;
    compute_stages(rhs, closure, previous, y, at);
    held_rk4::finish(d, dt, {at.k[0], at.k[1], at.k[2], at.k[3]}, y);
  }

  /// From d_next adds to d_y, d_closure, d_previous; add_vjp(y, adjoint, grad) adds (dR^/dy)^T adjoint.
  template <std::size_t Capacity, class Rhs, class AddVjp>
  MAC_HOST_DEVICE void adjoint(const Rhs& rhs, const AddVjp& add_vjp, const double* closure,
                               const double* previous, const double* y, const double* d_next, double* d_y,
                               double* d_closure, double* d_previous) const {
    Stages<Capacity> at;
    compute_stages(rhs, closure, previous, y, at);
    double d_k[Capacity];
    double d_stage[Capacity];  // of y_{i+1}, through which k_i acts on later stages
    for (std::size_t i = stages; i-- > 0;) {
      for (std::size_t v = 0; v < d; ++v) {
        d_k[v] = dt * held_rk4::b(i) * d_next[v];
        if (i + 1 < stages) d_k[v] += dt * held_rk4::a(i + 1) * d_stage[v];
      }
      const double s = share(previous != nullptr, i);
      for (std::size_t j = 0; j < c; ++j) {
        d_closure[j] += (1 + s) * d_k[targets[j]];
        if (s != 0) d_previous[j] -= s * d_k[targets[j]];
      }
      for (std::size_t v = 0; v < d; ++v) d_stage[v] = 0;
      add_vjp(static_cast<const double*>(at.y[i]), static_cast<const double*>(d_k), d_stage);
      for (std::size_t v = 0; v < d; ++v) d_y[v] += d_stage[v];
    }
    for (std::size_t v = 0; v < d; ++v) d_y[v] += d_next[v];
  }
};

}  // namespace mac
