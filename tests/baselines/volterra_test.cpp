#include "baselines/volterra.hpp"

#include <gtest/gtest.h>

#include <Eigen/LU>
#include <cmath>
#include <mac/random.hpp>

namespace mac {
namespace {

MatrixSeries constant(double value, std::size_t times) {
  MatrixSeries series(1, 1, times);
  std::fill(series.values.begin(), series.values.end(), value);
  return series;
}

TEST(Volterra, OfAConstantKernelIsAnExponentialToSecondOrder) {
  // K = f - g int K  =>  K = f e^{-gt}
  const auto error = [](std::size_t times) {
    const double dt = 2.0 / static_cast<double>(times - 1);
    const MatrixSeries k = solve_volterra(constant(1.5, times), constant(0.7, times), dt, 1);
    return std::abs(k.at(0, 0)[times - 1] - 0.7 * std::exp(-3.0));
  };
  EXPECT_NEAR(std::log2(error(501) / error(1001)), 2, 0.01);  // next order: dt^4, far below
}

/// Smooth random matrices.
MatrixSeries random_series(std::size_t rows, std::size_t cols, std::size_t times, std::uint32_t index) {
  RandomStream random(3, Purpose::diagnosis, index);
  MatrixSeries series(rows, cols, times);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      const double size = random.normal(), rate = random.uniform(0, 2), phase = random.uniform(0, 6);
      for (std::size_t t = 0; t < times; ++t)
        series.at(i, j)[t] = size * std::exp(-rate * static_cast<double>(t) / 300) *
                             std::cos(static_cast<double>(t) / 40 + phase);
    }
  return series;
}

TEST(Volterra, ByFftIsTheDirectSum) {
  const std::size_t b = 3, c = 2, times = 777;  // neither a power of two nor a multiple of a block
  const double dt = 2e-3;
  const MatrixSeries g = random_series(b, b, times, 0), f = random_series(b, c, times, 1);
  const MatrixSeries k = solve_volterra(g, f, dt, 1);
  const auto matrix = [](const MatrixSeries& series, std::size_t t) {
    Eigen::MatrixXd m(series.rows, series.cols);
    for (std::size_t i = 0; i < series.rows; ++i)
      for (std::size_t j = 0; j < series.cols; ++j)
        m(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) = series.at(i, j)[t];
    return m;
  };
  std::vector<Eigen::MatrixXd> direct{matrix(f, 0)};
  const Eigen::MatrixXd implicit = Eigen::MatrixXd::Identity(3, 3) + dt / 2 * matrix(g, 0);
  for (std::size_t n = 1; n < times; ++n) {
    Eigen::MatrixXd rhs = matrix(f, n) - dt / 2 * matrix(g, n) * direct[0];
    for (std::size_t m = 1; m < n; ++m) rhs -= dt * matrix(g, n - m) * direct[m];
    direct.push_back(implicit.partialPivLu().solve(rhs));
    // Rounding: some hundred terms of order one.
    EXPECT_LT((direct[n] - matrix(k, n)).cwiseAbs().maxCoeff(), 1e-12) << n;
  }
}

TEST(Volterra, IsTheSameBitsForAnyThreadCount) {
  const MatrixSeries g = random_series(9, 9, 500, 2), f = random_series(9, 2, 500, 3);
  EXPECT_EQ(solve_volterra(g, f, 1e-3, 1).values, solve_volterra(g, f, 1e-3, 3).values);
}

}  // namespace
}  // namespace mac
