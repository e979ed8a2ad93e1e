// The Volterra equation of the second kind for a matrix K(t), on a uniform grid by the trapezoid rule:
//
//   K(t) = F(t) - int_0^t G(t-s) K(s) ds
//   K_0 = F_0,   (I + dt/2 G_0) K_n = F_n - dt/2 G_n K_0 - dt sum_{m=1}^{n-1} G_{n-m} K_m
#pragma once

#include <cstddef>
#include <vector>

namespace mac {

/// A matrix at every time, time running fastest: entry (i, j) is a contiguous series of `times` numbers.
struct MatrixSeries {
  std::size_t rows = 0, cols = 0, times = 0;
  std::vector<double> values;

  MatrixSeries() = default;
  MatrixSeries(std::size_t r, std::size_t c, std::size_t n) : rows(r), cols(c), times(n), values(r * c * n) {}
  double* at(std::size_t i, std::size_t j) { return values.data() + (i * cols + j) * times; }
  const double* at(std::size_t i, std::size_t j) const { return values.data() + (i * cols + j) * times; }
};

/// K from G (b, b) and F (b, c). The history sums are halved recursively and done by FFT: O(n log^2 n)
/// instead of O(n^2). The result does not depend on the number of threads.
MatrixSeries solve_volterra(const MatrixSeries& g, const MatrixSeries& f, double dt, int threads);

}  // namespace mac
