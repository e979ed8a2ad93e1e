// The reduced right-hand sides R^(y) as plain values: what a device needs to evaluate them.
#pragma once

#include <cstddef>
#include <mac/host_device.hpp>
#include <variant>

#include "systems/fourier_modes.hpp"
#include "systems/grid_buses.hpp"

namespace mac {

/// Lorenz '96, dX/dt without U.
template <class Scalar>
MAC_HOST_DEVICE void slow_rhs(std::size_t n, double f, const Scalar* x, Scalar* dxdt) {
  for (std::size_t k = 0; k < n; ++k) {
    const Scalar &before = x[k == 0 ? n - 1 : k - 1], &two_before = x[k < 2 ? k + n - 2 : k - 2],
                 &after = x[k + 1 == n ? 0 : k + 1];
    dxdt[k] = f - x[k] - before * (two_before - after);
  }
}

struct LorenzRing {
  std::size_t n;
  double f;

  template <class Scalar>
  MAC_HOST_DEVICE void reduced_rhs(const Scalar* x, Scalar* dxdt) const {
    slow_rhs(n, f, x, dxdt);
  }
};

struct FourierModes {
  static constexpr std::size_t most = 16;
  std::size_t modes;
  double lambda[2 * (most + 1)];

  template <class Scalar>
  MAC_HOST_DEVICE void reduced_rhs(const Scalar* y, Scalar* dydt) const {
    fourier_reduced_rhs(modes, lambda, y, dydt);
  }
};

struct ReducedEquations {
  std::variant<LorenzRing, FourierModes, GridBuses> of;
};

}  // namespace mac
