// The coupled step, in the one place where it stands: classical RK4 for dy/dt = R(y) + C, of which rollouts,
// validation, training, the runtime, Python and the CUDA kernels take their steps. Paper, eq. (3), eq_rom2; the
// stages are those of apdx_rk4_zero_order_holding (without numbers), the hold linear is ours.
//
//   y_i = y + a_i dt k_{i-1},   k_i = R(y_i) + C_i,   next = y + dt sum_i b_i k_i
//   a = (0, 1/2, 1/2, 1),       b = (1/6, 1/3, 1/3, 1/6)
//
//   hold zero, linear    C_i = closure + s_i (closure - previous),   s_i = 0, or a_i - pivot
//   hold stage           C_i = the network's closure at y_i, from the memory before the step
//
// closure and previous are the last two predictions. The pivot is 0 where they are closures at the start of
// their steps, 1/2 where they are means over them, so that a mean stays a mean.
//
// Columns (trajectories, grid columns) step together: arrays are (columns, d) for states, (columns, c) for
// closures. No column sees another, and the bits don't depend on how many there are.
#pragma once

#include <cstddef>
#include <mac/hold.hpp>
#include <mac/host_device.hpp>
#include <vector>

namespace mac::held_rk4 {

inline constexpr std::size_t stages = 4;
MAC_HOST_DEVICE constexpr double a(std::size_t i) { return i == 0 ? 0 : i < 3 ? 0.5 : 1; }
MAC_HOST_DEVICE constexpr double b(std::size_t i) { return i == 0 || i == 3 ? 1.0 / 6 : 1.0 / 3; }

/// s at the fraction f of the step: f - pivot for the hold linear where there was a prediction before.
MAC_HOST_DEVICE inline double share(HeldClosure held, bool has_previous, double fraction) {
  if (held.hold != Hold::linear || !has_previous) return 0;
  return fraction - (held.target == Target::mean ? 0.5 : 0.0);
}

/// The line; a share of 0 is the closure held constant and does not look at `previous`.
MAC_HOST_DEVICE inline double line(double closure, double previous, double share) {
  const double slope = share == 0 ? 0.0 : closure - previous;
  return closure + share * slope;
}

/// y_i from y and k_{i-1} (null for i = 0), all (n)
MAC_HOST_DEVICE inline void stage_state(std::size_t i, std::size_t n, double dt, const double* y,
                                        const double* k, double* out) {
  for (std::size_t v = 0; v < n; ++v) out[v] = i == 0 ? y[v] : y[v] + a(i) * dt * k[v];
}

/// y (n) after the step, from the rates k_i (n) of its stages
MAC_HOST_DEVICE inline void finish(std::size_t n, double dt, const double* const (&k)[stages], double* y) {
  for (std::size_t v = 0; v < n; ++v) {
    double slope = 0;
    for (std::size_t i = 0; i < stages; ++i) slope += b(i) * k[i][v];
    y[v] += dt * slope;
  }
}

/// What is coupled: closure j of a column is added to its equation targets[j].
struct Columns {
  std::size_t count, d, c;
  const std::size_t* targets;  // (c)
};

/// The closure of a stage; `previous` is null where there was none.
struct StageClosure {
  const double *closure, *previous;  // (columns, c)
  double share;
};

/// y_i and k_i of all stages, in room.state(i) and room.rate(i), (columns, d); the states may share one
/// array. rhs(i, y_i, k_i) sets k_i = R(y_i) of all columns; closure_at(i, y_i) gives the StageClosure.
template <class Room, class Rhs, class ClosureAt>
MAC_HOST_DEVICE void compute_stages(const Columns& of, double dt, const double* y, Room& room, Rhs&& rhs,
                                    ClosureAt&& closure_at) {
  for (std::size_t i = 0; i < stages; ++i) {
    double* const state = room.state(i);
    double* const rate = room.rate(i);
    stage_state(i, of.count * of.d, dt, y, i == 0 ? nullptr : room.rate(i - 1), state);
    rhs(i, static_cast<const double*>(state), rate);
    const StageClosure at = closure_at(i, static_cast<const double*>(state));
    for (std::size_t column = 0; column < of.count; ++column)
      for (std::size_t j = 0; j < of.c; ++j) {
        const std::size_t k = column * of.c + j;
        rate[column * of.d + of.targets[j]] +=
            line(at.closure[k], at.previous ? at.previous[k] : 0, at.share);
      }
  }
}

/// Advances y (columns, d).
template <class Room, class Rhs, class ClosureAt>
MAC_HOST_DEVICE void step(const Columns& of, double dt, Room& room, Rhs&& rhs, ClosureAt&& closure_at,
                          double* y) {
  compute_stages(of, dt, y, room, rhs, closure_at);
  finish(of.count * of.d, dt, {room.rate(0), room.rate(1), room.rate(2), room.rate(3)}, y);
}

/// The gradient of a step whose y_i compute_stages has left in room.state(i), an array each: from d_next (columns,
/// d) *adds* to d_y, d_closure and d_previous. share_at(i) is the share of stage i; add_vjp(y_i, adjoint, grad) adds
/// (dR/dy)^T adjoint of all columns. d_rate and d_stage are room for (columns, d) each.
template <class Room, class ShareAt, class AddVjp>
MAC_HOST_DEVICE void adjoint(const Columns& of, double dt, Room& room, ShareAt&& share_at, AddVjp&& add_vjp,
                             const double* d_next, double* d_rate, double* d_stage, double* d_y,
                             double* d_closure, double* d_previous) {
  const std::size_t n = of.count * of.d;
  for (std::size_t i = stages; i-- > 0;) {
    for (std::size_t v = 0; v < n; ++v) {
      d_rate[v] = dt * b(i) * d_next[v];
      if (i + 1 < stages) d_rate[v] += dt * a(i + 1) * d_stage[v];  // k_i acts on the next stage's state
    }
    const double s = share_at(i);
    for (std::size_t column = 0; column < of.count; ++column)
      for (std::size_t j = 0; j < of.c; ++j) {
        const double rate = d_rate[column * of.d + of.targets[j]];
        d_closure[column * of.c + j] += (1 + s) * rate;
        if (s != 0) d_previous[column * of.c + j] -= s * rate;
      }
    for (std::size_t v = 0; v < n; ++v) d_stage[v] = 0;
    add_vjp(static_cast<const double*>(room.state(i)), static_cast<const double*>(d_rate), d_stage);
    for (std::size_t v = 0; v < n; ++v) d_y[v] += d_stage[v];
  }
  for (std::size_t v = 0; v < n; ++v) d_y[v] += d_next[v];
}

/// Room of a step on the host: the states of the stages are one array, their rates four.
class StageArrays {
 public:
  explicit StageArrays(std::size_t n = 0) { resize(n); }
  void resize(std::size_t n) {
    state_.resize(n);
    rates_.resize(stages * n);
  }
  double* state(std::size_t) { return state_.data(); }
  double* rate(std::size_t i) { return rates_.data() + i * state_.size(); }

 private:
  std::vector<double> state_, rates_;  // (n), (stages, n)
};

}  // namespace mac::held_rk4
