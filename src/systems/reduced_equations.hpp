// The reduced right-hand sides R^(y) of eq. (2), eq_rom1, of the paper as plain values: what a device needs to
// evaluate them.
//
// The number d of variables is an argument: where the compiler knows it, it keeps all of them in registers.
// Kernels are compiled for variables_of_paper, and for any other number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mac/host_device.hpp>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "systems/fourier_modes.hpp"
#include "systems/grid_buses.hpp"

namespace mac {

/// Lorenz '96, dX/dt without U (paper, sec_results_l96, an equation without number).
template <class Scalar>
MAC_HOST_DEVICE void slow_rhs(std::size_t n, double f, const Scalar* x, Scalar* dxdt) {
  for (std::size_t k = 0; k < n; ++k) {
    const Scalar &before = x[k == 0 ? n - 1 : k - 1], &two_before = x[k < 2 ? k + n - 2 : k - 2],
                 &after = x[k + 1 == n ? 0 : k + 1];
    dxdt[k] = f - x[k] - before * (two_before - after);
  }
}

struct LorenzRing {
  static constexpr int variables_of_paper = 8;
  double f;

  template <class Scalar>
  MAC_HOST_DEVICE void reduced_rhs(std::size_t d, const Scalar* x, Scalar* dxdt) const {
    slow_rhs(d, f, x, dxdt);
  }
};

struct FourierModes {
  static constexpr int variables_of_paper = 6;
  static constexpr std::size_t most = 16;
  double wavenumber, lambda[2 * (most + 1)];

  template <class Scalar>
  MAC_HOST_DEVICE void reduced_rhs(std::size_t d, const Scalar* y, Scalar* dydt) const {
    fourier_reduced_rhs(d / 2, wavenumber, lambda, y, dydt);
  }
};

/// Equations that came as text: C++ for a compiler at run time (systems/equations/device_code.hpp).
struct WrittenEquations {
  /// On single numbers. With 3,000 the compiler takes some twenty seconds for a kernel, and the time grows with their square.
  static constexpr std::size_t most_operations = 3000;

  std::size_t variables = 0;
  std::shared_ptr<const std::string> code;
};

struct ReducedEquations {
  std::variant<LorenzRing, FourierModes, GridBuses, WrittenEquations> of;
};

/// drives[v]: the closure that drives variable v, or -1; closure j drives targets[j].
inline void set_drives(std::span<const std::size_t> targets, std::span<int> drives) {
  std::fill(drives.begin(), drives.end(), -1);
  for (std::size_t j = 0; j < targets.size(); ++j) drives[targets[j]] = static_cast<int>(j);
}

}  // namespace mac
