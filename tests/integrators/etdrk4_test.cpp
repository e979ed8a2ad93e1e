#include "integrators/etdrk4.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <mac/rk4.hpp>

namespace mac {
namespace {

using Complex = std::complex<double>;

/// v' = L v + v^2, q' = Re v. 1/v is linear, so the solution is known.
struct Riccati {
  Complex linear;
  void operator()(const double* v, double* n, double* g) const {
    n[0] = v[0] * v[0] - v[1] * v[1];
    n[1] = 2 * v[0] * v[1];
    g[0] = v[0];
  }
  Complex exact(Complex v0, double t) const {
    return 1.0 / ((1.0 / v0 + 1.0 / linear) * std::exp(-linear * t) - 1.0 / linear);
  }
};

std::vector<double> integrate(const Riccati& equation, Complex v0, double dt, int steps) {
  Etdrk4 method({equation.linear}, dt, 1);
  std::vector<double> v{v0.real(), v0.imag()};
  double q = 0;
  for (int i = 0; i < steps; ++i) method.step(v.data(), &q, equation);
  return {v[0], v[1], q};
}

TEST(Etdrk4, ConvergesAtFourthOrderForADispersiveLinearPart) {
  const Riccati equation{{-0.1, 6}};
  const Complex v0(0.9, 0.3), exact = equation.exact(v0, 1);
  const auto error = [&](int steps) {
    const auto v = integrate(equation, v0, 1.0 / steps, steps);
    return std::abs(Complex(v[0], v[1]) - exact);
  };
  EXPECT_NEAR(std::log2(error(80) / error(160)), 4, 0.1);  // next-order term at hL = 0.08
}

TEST(Etdrk4, AccumulatesItsQuadratureAtFourthOrder) {
  const Riccati equation{{-0.5, 0.8}};
  const Complex v0(0.4, 0.3);
  const double exact = integrate(equation, v0, 1.0 / 4096, 4096)[2];
  const auto error = [&](int steps) {
    return std::abs(integrate(equation, v0, 1.0 / steps, steps)[2] - exact);
  };
  EXPECT_NEAR(std::log2(error(64) / error(128)), 4, 0.1);  // next-order term
}

TEST(Etdrk4, IsExactWithoutNonlinearity) {
  Etdrk4 method({Complex(0, 1.3e6)}, 1e-4, 0);
  std::vector<double> v{1, 0};
  for (int i = 0; i < 100; ++i)
    method.step(v.data(), nullptr, [](const double*, double* n, double*) { n[0] = n[1] = 0; });
  EXPECT_NEAR(std::abs(Complex(v[0], v[1]) - std::exp(Complex(0, 1.3e6 * 1e-2))), 0,
              1e-11);  // 13,000 radians
  EXPECT_NEAR(std::hypot(v[0], v[1]), 1, 1e-13);
}

TEST(Etdrk4, IsRk4WhereTheLinearPartVanishes) {
  const Riccati equation{0};
  const auto etd = integrate(equation, {0.4, 0.3}, 0.1, 10);
  std::vector<double> v{0.4, 0.3, 0}, work(9);
  for (int i = 0; i < 10; ++i)
    rk4_step(3, 0.1, v.data(), work.data(),
             [&](const double* z, double* rate) { equation(z, rate, rate + 2); });
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(etd[i], v[i], 1e-14);  // contour means round to 1e-16
}

}  // namespace
}  // namespace mac
