#include <mac/rk4.hpp>

#include "integrators/simd.hpp"

namespace mac {

double rk4_largest_stable_step(std::complex<double> lambda) {
  // |1 + z + z^2/2 + z^3/6 + z^4/24| <= 1 holds from z = 0 along the ray of lambda to the region's border.
  const auto amplifies = [lambda](double dt) {
    const std::complex<double> z = dt * lambda;
    return std::norm(1.0 + z * (1.0 + z / 2.0 * (1.0 + z / 3.0 * (1.0 + z / 4.0)))) > 1;
  };
  double stable = 0, unstable = 4 / std::abs(lambda);  // the region lies inside |z| < 4
  for (int i = 0; i < 60; ++i) {
    const double middle = (stable + unstable) / 2;
    (amplifies(middle) ? unstable : stable) = middle;
  }
  return stable;
}

MAC_VECTOR_CLONES
void rk4_stage(std::size_t n, bool first, double weight, double step, const double* __restrict y,
               const double* __restrict rate, double* __restrict sum, double* __restrict stage) {
  if (first) {
    for (std::size_t i = 0; i < n; ++i) {
      sum[i] = weight * rate[i];
      stage[i] = y[i] + step * rate[i];
    }
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      sum[i] = sum[i] + weight * rate[i];
      stage[i] = y[i] + step * rate[i];
    }
  }
}

MAC_VECTOR_CLONES
void rk4_finish(std::size_t n, double step, const double* __restrict sum, const double* __restrict rate,
                double* __restrict y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = y[i] + step * (sum[i] + rate[i]);
}

}  // namespace mac
