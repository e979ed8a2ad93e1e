#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <algorithm>

#include "systems/make.hpp"

namespace mac {
namespace {

using namespace test;

const std::vector<double> rest{0, 0, .0418, -.170, .8777};

TEST(PowerGrid, ComesToRestWhereItShould) {
  const auto system = make("name = 'power_grid'");
  const auto state = advance(*system, sample(*system, *system->initial_condition(nullptr), 0), 5e-4, 60000);
  // Half a unit of the last published digit; the slowest mode has decayed to e^{-0.476 * 30} = 6e-7.
  for (std::size_t i : {0u, 1u, 2u, 4u}) EXPECT_NEAR(state[i], rest[i], 6e-5) << i;
  EXPECT_NEAR(state[3], rest[3], 6e-4);
}

TEST(PowerGrid, HasTheEigenvaluesOfThePublishedEquilibrium) {
  const auto system = make("name = 'power_grid'");
  const auto z = advance(*system, rest, 5e-4, 60000);
  const auto solver = system->make_solver(5e-5);
  Eigen::MatrixXd jacobian(5, 5);
  std::vector<double> high(5), low(5);
  for (std::size_t j = 0; j < 5; ++j) {
    auto up = z, down = z;
    up[j] += 1e-6, down[j] -= 1e-6;
    solver->full_rhs(up, high);
    solver->full_rhs(down, low);
    for (std::size_t i = 0; i < 5; ++i)
      jacobian(static_cast<int>(i), static_cast<int>(j)) = (high[i] - low[i]) / 2e-6;
  }
  std::vector<std::complex<double>> values;
  for (const auto& value : jacobian.eigenvalues()) values.push_back(value);
  std::sort(values.begin(), values.end(), [](auto a, auto b) { return a.real() < b.real(); });
  // Half a unit of the last published digit.
  EXPECT_NEAR(values[0].real(), -3102, 0.5);
  EXPECT_NEAR(values[1].real(), -3.82, 0.005);
  EXPECT_NEAR(values[2].real(), -.999, 0.0005);
  EXPECT_NEAR(values[3].real(), -.476, 0.0005);
  EXPECT_NEAR(std::abs(values[3].imag()), 21.34, 0.005);
  EXPECT_NEAR(values[3].imag() + values[4].imag(), 0, 1e-6);
}

TEST(PowerGrid, KnowsItsLargestStableStep) {
  const auto system = make("name = 'power_grid'");
  const double limit = *system->largest_stable_dt();
  EXPECT_NEAR(limit, 2.7853 / 3102, 1e-6);
  const auto equilibrium = advance(*system, rest, 5e-4, 60000);
  auto state = equilibrium;
  state[3] += 1e-6;  // along the stiff direction
  const auto drift = [&](double dt) {
    return std::abs(advance(*system, state, dt, 1500)[3] - equilibrium[3]);
  };
  EXPECT_LT(drift(0.98 * limit), 1e-6);
  EXPECT_GT(drift(1.05 * limit), 1e-2);
}

TEST(PowerGrid, IsLimitedByItsDecayingModesAlone) {
  // From here Newton's method comes to a saddle: eigenvalues -199.6 and 59.4. What grows may grow.
  const auto system = make("name = 'power_grid'\nalpha3_0 = -3\nV3_0 = 0.2");
  EXPECT_NEAR(*system->largest_stable_dt(), 2.7853 / 199.646, 1e-6);
}

TEST(PowerGrid, LosesEnergyAsItsDampingSays) {
  const auto system = make("name = 'power_grid'");
  auto state = sample(*system, *system->initial_condition(nullptr), 2);
  double energy = system->diagnostics(state)[0].value;
  for (int i = 0; i < 50; ++i) {
    state = advance(*system, state, 5e-5, 400);
    const double now = system->diagnostics(state)[0].value;
    EXPECT_LT(now, energy);
    energy = now;
  }
}

TEST(PowerGrid, ConvergesAtFourthOrder) {
  const auto system = make("name = 'power_grid'");
  const auto start = advance(*system, sample(*system, *system->initial_condition(nullptr), 1), 1e-5, 1000);
  const auto exact = advance(*system, start, 1.25e-5, 8000);
  EXPECT_NEAR(measured_order(*system, start, exact, 2e-4, 500), 4, 0.2);  // lambda dt = 0.6: next term felt
}

TEST(PowerGrid, StartsWithoutClosureBecauseTheLoadBusIsAtItsReference) {
  const auto system = make("name = 'power_grid'");
  const auto solver = system->make_solver(5e-5);
  solver->start(
      sample(*system, *initial(*system, "kind = 'box'\nomega = [-0.1, 0.1]\nalpha2 = [-0.24, -0.08]"), 7));
  std::vector<double> closure(2);
  solver->closure(closure);
  EXPECT_EQ(closure[0], 0);
  EXPECT_EQ(closure[1], 0);
}

}  // namespace
}  // namespace mac
