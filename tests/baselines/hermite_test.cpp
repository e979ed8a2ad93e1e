#include "baselines/hermite.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace mac {
namespace {

TEST(GaussHermite, IntegratesGaussianMomentsUpToDegree2nMinus1) {
  for (const std::size_t count : {1u, 2u, 3u, 4u, 7u}) {
    const GaussHermite rule = gauss_hermite(count);
    double moment = 1;  // E x^d = (d-1)!! for even d
    for (std::size_t d = 0; d < 2 * count; d += 2) {
      if (d > 0) moment *= static_cast<double>(d - 1);
      double even = 0, odd = 0;
      for (std::size_t i = 0; i < count; ++i) {
        even += rule.weights[i] * std::pow(rule.nodes[i], static_cast<double>(d));
        odd += rule.weights[i] * std::pow(rule.nodes[i], static_cast<double>(d + 1));
      }
      EXPECT_NEAR(even / moment, 1, 1e-12) << count << " points, degree " << d;  // a few hundred roundings
      EXPECT_NEAR(odd / moment, 0, 1e-12);
    }
  }
}

TEST(HermiteBasis, HasSevenLinearAndEightyFourCubicFunctionsOfSixVariables) {
  EXPECT_EQ(HermiteBasis(6, 1).size(), 7u);
  EXPECT_EQ(HermiteBasis(6, 3).size(), 84u);
}

TEST(HermiteBasis, IsOrthonormal) {
  // Products of two cubics have degree 6: four points integrate them exactly.
  const HermiteBasis basis(2, 3);
  const GaussHermite rule = gauss_hermite(4);
  const std::size_t n = basis.size();
  std::vector<double> gram(n * n), values(n), work(basis.work_size());
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < 4; ++b) {
      const double x[2] = {rule.nodes[a], rule.nodes[b]};
      basis.evaluate(x, values.data(), work.data());
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          gram[i * n + j] += rule.weights[a] * rule.weights[b] * values[i] * values[j];
    }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) EXPECT_NEAR(gram[i * n + j], i == j ? 1 : 0, 1e-13) << i << " " << j;
}

TEST(HermiteBasis, RateIsTheDerivativeAlongAPath) {
  const HermiteBasis basis(3, 3);
  const std::vector<double> x = {0.4, -1.3, 2.1}, velocity = {1.5, 0.3, -0.7};
  const double eps = 1e-5;
  std::vector<double> ahead(3), behind(3), up(basis.size()), down(basis.size()), rate(basis.size()),
      work(basis.work_size());
  for (std::size_t l = 0; l < 3; ++l) {
    ahead[l] = x[l] + eps * velocity[l];
    behind[l] = x[l] - eps * velocity[l];
  }
  basis.evaluate(ahead.data(), up.data(), work.data());
  basis.evaluate(behind.data(), down.data(), work.data());
  basis.rate(x.data(), velocity.data(), rate.data(), work.data());
  // Central difference: eps^2 times third derivatives (below 10), plus rounding 1e-16 / eps.
  for (std::size_t i = 0; i < basis.size(); ++i)
    EXPECT_NEAR(rate[i], (up[i] - down[i]) / (2 * eps), 2e-9) << i;
}

}  // namespace
}  // namespace mac
