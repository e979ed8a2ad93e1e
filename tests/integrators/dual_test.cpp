#include <gtest/gtest.h>

#include <mac/dual.hpp>

namespace mac {
namespace {

TEST(Dual, DifferentiatesEveryOperation) {
  using D = Dual<2>;
  D x(0.7), y(-1.3);
  x.partial[0] = y.partial[1] = 1;
  const auto expect = [](const D& f, double value, double dx, double dy) {
    EXPECT_DOUBLE_EQ(f.value, value);
    EXPECT_DOUBLE_EQ(f.partial[0], dx);
    EXPECT_DOUBLE_EQ(f.partial[1], dy);
  };
  expect(x + y, -0.6, 1, 1);
  expect(x - y, 2.0, 1, -1);
  expect(x * y, -0.91, -1.3, 0.7);
  expect(x / y, 0.7 / -1.3, 1 / -1.3, -0.7 / 1.69);
  expect(3.0 * x, 2.1, 3, 0);
  expect(x / 2.0, 0.35, 0.5, 0);
  expect(1.0 - y, 2.3, 0, -1);
  expect(-x, -0.7, -1, 0);
  expect(sin(x), std::sin(0.7), std::cos(0.7), 0);
  expect(cos(y), std::cos(1.3), 0, std::sin(1.3));
}

TEST(Dual, GivesTheWholeJacobianOfMoreInputsThanItHasLanes) {
  const std::size_t n = 19;  // two full groups of eight and a rest
  std::vector<double> y(n), adjoint(n), grad(n, 1.0);
  for (std::size_t i = 0; i < n; ++i) y[i] = std::sin(double(i) + 1), adjoint[i] = std::cos(3.0 * double(i));
  // f_i = y_i y_{i+1}: (J^T a)_i = a_i y_{i+1} + a_{i-1} y_{i-1}
  add_vjp(n, y.data(), adjoint.data(), grad.data(), [n](const auto* x, auto* f) {
    for (std::size_t i = 0; i < n; ++i) f[i] = x[i] * x[(i + 1) % n];
  });
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t before = (i + n - 1) % n, after = (i + 1) % n;
    EXPECT_NEAR(grad[i], 1 + adjoint[i] * y[after] + adjoint[before] * y[before],
                1e-15);  // added to what was there
  }
}

}  // namespace
}  // namespace mac
