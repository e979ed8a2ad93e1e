// The equations of the power grid (see power_grid.cpp; paper, sec_results_pg, equations without numbers).
#pragma once

#include <cmath>
#include <cstddef>
#include <mac/host_device.hpp>

namespace mac {

struct GridBuses {
  static constexpr int variables_of_paper = 3;
  double M1, M2, D1, D2, D3, b1, b2, b3, P2, P3, Q3, epsilon, V1, V2;
  double alpha3_0, V3_0;

  template <class Scalar>
  struct Powers {
    Scalar g2, g3;
  };
  /// The angles' sines are most of the work: the one that g2 and g3 share is taken once.
  template <class Scalar>
  MAC_HOST_DEVICE Powers<Scalar> powers(const Scalar& alpha2, const Scalar& alpha3, const Scalar& V3) const {
    using std::sin;
    const Scalar between = b3 * V2 * V3 * sin(alpha2 - alpha3);
    return {b1 * V1 * V2 * sin(alpha2) + between + P2, b2 * V1 * V3 * sin(alpha3) - between + P3};
  }
  template <class Scalar>
  MAC_HOST_DEVICE Scalar gV(const Scalar& alpha2, const Scalar& alpha3, const Scalar& V3) const {
    using std::cos;
    return (b2 + b3) * V3 - b2 * V1 * cos(alpha3) - b3 * V2 * cos(alpha3 - alpha2) + Q3 / V3;
  }

  /// The generators' equations, driven by g2 and g3 of the load bus's true or reference state.
  template <class Scalar>
  MAC_HOST_DEVICE void generators(const Scalar* y, const Scalar& g2, const Scalar& g3, Scalar* dydt) const {
    dydt[0] = -(D1 / M1) * y[0] + (g2 + g3) / M1;
    dydt[1] = -(D2 / M2) * y[1] - g2 / M2;
    dydt[2] = y[1] - y[0];
  }
  template <class Scalar>
  MAC_HOST_DEVICE void full_rhs(const Scalar* z, Scalar* dzdt) const {
    const auto [g2, g3] = powers(z[2], z[3], z[4]);
    generators(z, g2, g3, dzdt);
    dzdt[3] = -z[0] - g3 / D3;
    dzdt[4] = -gV(z[2], z[3], z[4]) / epsilon;
  }
  template <class Scalar>
  MAC_HOST_DEVICE void reduced_rhs(std::size_t /*3*/, const Scalar* y, Scalar* dydt) const {
    const Scalar alpha3(alpha3_0), V3(V3_0);
    const auto [g2, g3] = powers(y[2], alpha3, V3);
    generators(y, g2, g3, dydt);
  }
};

}  // namespace mac
