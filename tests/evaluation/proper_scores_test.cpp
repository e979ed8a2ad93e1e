#include "data/proper_scores.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <mac/random.hpp>
#include <numbers>
#include <vector>

namespace mac {
namespace {

TEST(Crps, OfOneMemberIsTheAbsoluteError) {
  EXPECT_DOUBLE_EQ(crps(std::vector{1.5}, 4.0, 0), 2.5);
  EXPECT_DOUBLE_EQ(energy_score(std::vector{3.0, 4.0}, std::vector{0.0, 0.0}, 0), 5 / std::sqrt(2.0));
}

TEST(Crps, FairOnANormalEnsembleIsThatOfTheNormalDistribution) {
  // Gneiting and Raftery 2007: sigma (w (2 Phi(w) - 1) + 2 phi(w) - 1/sqrt(pi)), w = (y - mu) / sigma.
  const double mu = 0.3, sigma = 1.7;
  RandomStream random(3, Purpose::noise, 0);
  for (const double y : {0.3, 1.0, -2.0, 5.0}) {
    const double w = (y - mu) / sigma, density = std::exp(-w * w / 2) / std::sqrt(2 * std::numbers::pi);
    const double exact =
        sigma * (w * std::erf(w / std::numbers::sqrt2) + 2 * density - 1 / std::sqrt(std::numbers::pi));
    for (const std::size_t members : {2u, 5u}) {
      double fair = 0, plain = 0;
      const std::size_t trials = 40000;
      for (std::size_t i = 0; i < trials; ++i) {
        std::vector<double> x(members);
        for (double& value : x) value = mu + sigma * random.normal();
        fair += crps(x, y, 0) / static_cast<double>(trials);
        plain += crps(x, y, 1) / static_cast<double>(trials);
      }
      // Of one trial the standard deviation is about sigma: five standard errors.
      EXPECT_NEAR(fair, exact, 5 * sigma / 200);
      // E|X - X'| / (2 M) more: sigma / (sqrt(pi) M).
      EXPECT_NEAR(plain, exact + sigma / (std::sqrt(std::numbers::pi) * static_cast<double>(members)),
                  5 * sigma / 200);
    }
  }
}

TEST(Crps, OfAllMembersIsTheIntegralOverTheirDistribution) {
  const std::vector<double> x{0.2, 1.4, -0.6, 0.9};
  const double y = 0.5;
  // Integral of (F(t) - [t >= y])^2 over t.
  double integral = 0;
  const double step = 1e-4;
  for (double t = -2 + step / 2; t < 3; t += step) {
    double f = 0;
    for (const double value : x) f += value <= t ? 0.25 : 0;
    const double difference = f - (t >= y ? 1 : 0);
    integral += step * difference * difference;
  }
  EXPECT_NEAR(crps(x, y, 1), integral, 2 * step);  // a jump of F lies within a step of the grid
}

TEST(Scores, HaveTheSlopesOfTheirDifferenceQuotients) {
  RandomStream random(4, Purpose::noise, 0);
  std::vector<double> x(12), y(3);
  for (double& value : x) value = random.normal();
  for (double& value : y) value = random.normal();
  const double h = 1e-6, weight = 0.7;
  const auto expect_slopes = [&](const auto& score, std::size_t n) {
    std::vector<double> slopes(n, 0.25);  // what is there is added to
    score(x, slopes.data());
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> up = x, down = x;
      up[i] += h, down[i] -= h;
      EXPECT_NEAR(slopes[i] - 0.25, weight * (score(up, nullptr) - score(down, nullptr)) / (2 * h), 1e-8);
    }
  };
  expect_slopes([&](const std::vector<double>& of,
                    double* slopes) { return crps(of, y[0], almost_fair, weight, slopes); },
                x.size());
  expect_slopes([&](const std::vector<double>& of,
                    double* slopes) { return energy_score(of, y, almost_fair, weight, slopes); },
                x.size());
}

TEST(EnergyScore, OfOneVariableIsTheCrps) {
  const std::vector<double> x{0.2, 1.4, -0.6}, y{0.5};
  EXPECT_NEAR(energy_score(x, y, almost_fair), crps(x, y[0], almost_fair), 1e-15);  // sums in another order
}

}  // namespace
}  // namespace mac
