#include <gtest/gtest.h>

#include <mac/error.hpp>

#include "systems/make.hpp"

namespace mac {
namespace {

using namespace test;

TEST(InitialCondition, DrawsFourierModesUniformlyBelowTheirBounds) {
  const auto system = make("name = 'burgers'\ngrid = 64");
  const auto condition = system->initial_condition(nullptr);
  EXPECT_FALSE(condition->count());
  std::vector<double> mean(8), square(8);
  const std::size_t count = 4000;
  for (std::size_t i = 0; i < count; ++i) {
    const auto theta = sample(*system, *condition, i);
    for (std::size_t j = 0; j < theta.size(); ++j) {
      if (j < 2 || j >= 8) {
        EXPECT_EQ(theta[j], 0);
        continue;
      }
      const double scaled = theta[j] * std::exp(static_cast<double>(j / 2));
      EXPECT_LT(std::abs(scaled), 1);
      mean[j] += scaled / count;
      square[j] += scaled * scaled / count;
    }
  }
  for (std::size_t j = 2; j < 8; ++j) {
    EXPECT_NEAR(mean[j], 0, 4 * std::sqrt(1.0 / 3 / count));           // four standard errors
    EXPECT_NEAR(square[j], 1.0 / 3, 4 * std::sqrt(4.0 / 45 / count));  // var u^2 = 1/5 - 1/9
  }
}

TEST(InitialCondition, ScalesTheUniformDistribution) {
  const auto system = make("name = 'kdv'\ngrid = 64");
  const auto half = sample(*system, *initial(*system, "kind = 'uniform'\nscale = 0.5"), 3);
  const auto whole = sample(*system, *system->initial_condition(nullptr), 3);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_DOUBLE_EQ(half[i], whole[i] / 2);
}

TEST(InitialCondition, GivesThePapersOutOfDistributionCoefficients) {
  const auto system = make("name = 'burgers'\ngrid = 64\nmodes = 5");
  const auto fields = initial(*system, "kind = 'fields'\nfields = ['sin', 'exp_sin']");
  ASSERT_EQ(fields->count(), 2u);
  EXPECT_EQ(fields->label(0), "sin x");
  EXPECT_EQ(fields->label(1), "projected exp(sin x)");
  const auto sine = sample(*system, *fields, 0), exponential = sample(*system, *fields, 1);
  EXPECT_EQ(sine[3], -0.5);
  for (std::size_t i = 0; i < sine.size(); ++i) EXPECT_EQ(sine[i], i == 3 ? -0.5 : 0.0);
  EXPECT_NEAR(std::abs(exponential[3]), 0.565, 5e-4);  // the paper's table, three digits
  EXPECT_NEAR(std::abs(exponential[4]), 0.136, 5e-4);
  // The trapezoid rule is exact to rounding for this entire function.
  for (std::size_t k = 0; k < 8; ++k) {
    double re = 0, im = 0;
    for (int j = 0; j < 64; ++j) {
      const double x = 2 * M_PI * j / 64, u = std::exp(std::sin(x)) / 64;
      re += u * std::cos(static_cast<double>(k) * x), im -= u * std::sin(static_cast<double>(k) * x);
    }
    const bool kept = k >= 1 && k <= 5;
    EXPECT_NEAR(exponential[2 * k], kept ? re : 0, 1e-15) << k;
    EXPECT_NEAR(exponential[2 * k + 1], kept ? im : 0, 1e-15) << k;
  }
}

TEST(InitialCondition, StartsTheLoadBusAtItsReference) {
  const auto system = make("name = 'power_grid'\nalpha3_0 = -0.25\nV3_0 = 0.85");
  const auto box = initial(*system, "kind = 'box'\nomega = [0.1, 0.2]\nalpha2 = [-0.24, -0.08]");
  for (std::size_t i = 0; i < 100; ++i) {
    const auto z = sample(*system, *box, i);
    EXPECT_TRUE(z[0] >= 0.1 && z[0] <= 0.2 && z[1] >= 0.1 && z[1] <= 0.2);
    EXPECT_TRUE(z[2] >= -0.24 && z[2] <= -0.08);
    EXPECT_EQ(z[3], -0.25);
    EXPECT_EQ(z[4], 0.85);
  }
}

TEST(InitialCondition, StartsTheSlowRingAroundATenthOfItsForcing) {
  const auto system = make("name = 'lorenz96'\nN = 5\nJ = 2\nF = 20");
  const auto exactly = initial(*system, "spread = 0\nfast_spread = 0");
  EXPECT_EQ(sample(*system, *exactly, 0), (std::vector<double>{2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(InitialCondition, RefusesWhatItCannotRead) {
  const auto burgers = make("name = 'burgers'"), grid = make("name = 'power_grid'");
  EXPECT_THROW(initial(*burgers, "kind = 'fields'\nfields = ['cos']"), UsageError);
  EXPECT_THROW(initial(*burgers, "kind = 'fields'\nfields = []"), UsageError);
  EXPECT_THROW(initial(*burgers, "kind = 'box'"), UsageError);
  EXPECT_THROW(initial(*burgers, "kind = 'uniform'\nscale = -1"), UsageError);
  EXPECT_THROW(initial(*grid, "kind = 'box'\nomega = [0.1, -0.1]"), UsageError);
  EXPECT_THROW(initial(*grid, "kind = 'box'\nalpha2 = [0.1]"), UsageError);
}

TEST(System, RefusesImpossibleParameters) {
  for (const std::string table :
       {"name = 'burger'", "name = 'burgers'\ngrid = 127", "name = 'burgers'\ngrid = 8\nmodes = 3",
        "name = 'burgers'\ngrid = 12\nmodes = 3", "name = 'burgers'\nviscosity = 0",
        "name = 'kdv'\ndispersion = -1", "name = 'kdv'\nmodes = 0", "name = 'lorenz96'\nN = 3",
        "name = 'lorenz96'\nJ = 0", "name = 'lorenz96'\nwarmup_steps = -1", "name = 'power_grid'\nM1 = 0",
        "name = 'power_grid'\nV3_0 = 0", "grid = 128"})
    EXPECT_THROW(make(table), UsageError) << table;
  // Products of the highest resolved modes, 6 and below, have a place on 14 points.
  EXPECT_NO_THROW(make("name = 'burgers'\ngrid = 14\nmodes = 3"));
}

TEST(System, NamesItsVariablesInOrder) {
  const auto burgers = make("name = 'burgers'");
  EXPECT_EQ(burgers->resolved_names(),
            (std::vector<std::string>{"phi1", "phi2", "phi3", "psi1", "psi2", "psi3"}));
  EXPECT_EQ(burgers->closure_names(),
            (std::vector<std::string>{"m1_phi", "m2_phi", "m3_phi", "m1_psi", "m2_psi", "m3_psi"}));
  EXPECT_EQ(make("name = 'power_grid'")->closure_names(), (std::vector<std::string>{"C_omega1", "C_omega2"}));
  EXPECT_EQ(make("name = 'lorenz96'\nN = 4")->resolved_names(),
            (std::vector<std::string>{"X1", "X2", "X3", "X4"}));
  auto names = system_names();
  names.resize(7);  // a test's own may follow
  EXPECT_EQ(names, (std::vector<std::string>{"burgers", "kdv", "ks", "ks_cells", "lorenz96", "power_grid",
                                             "recorded"}));
}

}  // namespace
}  // namespace mac
