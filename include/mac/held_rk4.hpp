// The method of a coupled step: classical RK4 for dy/dt = R(y) + C(tau), the closure C given as a straight
// line over the step.
//
//   y_i = y + a_i dt k_{i-1},   k_i = R(y_i) + C(a_i dt),   next = y + dt sum_i b_i k_i
//   a = (0, 1/2, 1/2, 1),       b = (1/6, 1/3, 1/3, 1/6)
//   C(f dt) = closure + (f - pivot)(closure - previous)
//
// closure and previous are the last two predictions. The pivot is 0 where they are closures at the start of
// their steps, 1/2 where they are means over them, so that a mean stays a mean.
#pragma once

#include <cstddef>
#include <mac/host_device.hpp>

namespace mac::held_rk4 {

inline constexpr std::size_t stages = 4;
MAC_HOST_DEVICE constexpr double a(std::size_t i) { return i == 0 ? 0 : i < 3 ? 0.5 : 1; }
MAC_HOST_DEVICE constexpr double b(std::size_t i) { return i == 0 || i == 3 ? 1.0 / 6 : 1.0 / 3; }

/// The factor f - pivot of the line at the fraction f of the step.
MAC_HOST_DEVICE inline double share(double fraction, bool mean) { return fraction - (mean ? 0.5 : 0.0); }

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

}  // namespace mac::held_rk4
