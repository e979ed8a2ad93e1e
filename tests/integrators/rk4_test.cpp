#include <gtest/gtest.h>

#include <cmath>
#include <mac/dual.hpp>
#include <mac/rk4.hpp>
#include <vector>

namespace mac {
namespace {

/// The pendulum-like equation y'' = -y^3 with q' = y^2 as quadrature; conserves y'^2/2 + y^4/4.
template <class Scalar>
void rhs(const Scalar* y, Scalar* dydt) {
  dydt[0] = y[1];
  dydt[1] = -1.0 * (y[0] * y[0] * y[0]);
  dydt[2] = y[0] * y[0];
}

std::vector<double> integrate(double dt, int steps) {
  std::vector<double> y{1, 0.5, 0}, work(9);
  for (int i = 0; i < steps; ++i) rk4_step(3, dt, y.data(), work.data(), rhs<double>);
  return y;
}

TEST(Rk4, ConvergesAtFourthOrderInStateAndQuadrature) {
  const auto exact = integrate(5e-4, 4000);
  const auto coarse = integrate(0.01, 200), fine = integrate(0.005, 400);
  for (std::size_t i = 0; i < 3; ++i) {
    const double order = std::log2(std::abs(coarse[i] - exact[i]) / std::abs(fine[i] - exact[i]));
    EXPECT_NEAR(order, 4, 0.15) << i;  // the next-order term at dt = 0.01
  }
}

TEST(Rk4, IsExactForCubicsInTime) {
  // y' = 3 t^2 with t' = 1: Simpson's rule.
  std::vector<double> y{0, 0}, work(6);
  for (int i = 0; i < 4; ++i)
    rk4_step(2, 0.25, y.data(), work.data(), [](const double* z, double* rate) {
      rate[0] = 3 * z[1] * z[1];
      rate[1] = 1;
    });
  EXPECT_NEAR(y[0], 1, 1e-15);
}

TEST(Rk4, GivesTheSameBitsVectorisedAndScalar) {
  for (const std::size_t n : {1u, 3u, 4u, 7u, 130u}) {
    std::vector<double> y(n), rate(n), sum(n), stage(n);
    for (std::size_t i = 0; i < n; ++i) {
      y[i] = std::sin(1.0 + double(i)), rate[i] = std::exp(y[i]), sum[i] = std::cos(3.0 * double(i));
    }
    auto sum_scalar = sum, stage_scalar = stage, y_scalar = y;
    rk4_stage(n, false, 2, 0.1, y.data(), rate.data(), sum.data(), stage.data());
    rk4_stage<double>(n, false, 2, 0.1, y_scalar.data(), rate.data(), sum_scalar.data(), stage_scalar.data());
    rk4_finish(n, 0.1, sum.data(), rate.data(), y.data());
    rk4_finish<double>(n, 0.1, sum_scalar.data(), rate.data(), y_scalar.data());
    EXPECT_EQ(sum, sum_scalar);
    EXPECT_EQ(stage, stage_scalar);
    EXPECT_EQ(y, y_scalar);
  }
}

TEST(Rk4, CarriesDerivativesThroughAStep) {
  using D = Dual<2>;
  std::vector<D> y{1.0, 0.5, 0.0}, work(9);
  y[0].partial[0] = y[1].partial[1] = 1;
  rk4_step(3, 0.1, y.data(), work.data(), rhs<D>);
  const double eps = 1e-6;
  for (std::size_t j = 0; j < 2; ++j) {
    std::vector<double> up{1, 0.5, 0}, down = up, scratch(9);
    up[j] += eps, down[j] -= eps;
    rk4_step(3, 0.1, up.data(), scratch.data(), rhs<double>);
    rk4_step(3, 0.1, down.data(), scratch.data(), rhs<double>);
    // Central differences: rounding 1e-16 / eps and eps^2.
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(y[i].partial[j], (up[i] - down[i]) / (2 * eps), 1e-9);
  }
}

TEST(Rk4, KnowsTheBordersOfItsStabilityRegion) {
  EXPECT_NEAR(rk4_largest_stable_step(-2.0), rk4_real_stability / 2, 1e-12);
  EXPECT_NEAR(rk4_largest_stable_step({-1e-9, 1}), 2 * std::sqrt(2.0), 1e-6);  // the imaginary axis
}

}  // namespace
}  // namespace mac
