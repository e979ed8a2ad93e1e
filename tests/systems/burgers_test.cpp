#include <gtest/gtest.h>

#include "systems/make.hpp"

namespace mac {
namespace {

using namespace test;

// Cole–Hopf: u = 4 nu sum n I_n(z) e^{-nu n^2 t} sin nx / (I_0(z) + 2 sum I_n(z) e^{-nu n^2 t} cos nx),
// z = 1/(2 nu), for u_0 = sin x; returned as psi_k, k = 1..3 (phi_k = 0).
std::vector<double> cole_hopf(double nu, double t) {
  const double z = 1 / (2 * nu);
  const int points = 512, terms = 40;
  std::vector<double> psi(3);
  for (int j = 0; j < points; ++j) {
    const double x = 2 * M_PI * j / points;
    double above = 0, below = std::cyl_bessel_i(0, z);
    for (int n = 1; n < terms; ++n) {
      const double weight = std::cyl_bessel_i(n, z) * std::exp(-nu * n * n * t);
      above += 4 * nu * n * weight * std::sin(n * x);
      below += 2 * weight * std::cos(n * x);
    }
    for (int k = 1; k <= 3; ++k)
      psi[static_cast<std::size_t>(k - 1)] -= above / below * std::sin(k * x) / points;
  }
  return psi;
}

TEST(Burgers, FollowsTheColeHopfSolutionOfSinX) {
  const auto system = make("name = 'burgers'\ngrid = 128");
  const auto solver = system->make_solver(1e-4);
  solver->start(sin_x(*system));
  std::vector<double> y(6);
  for (const double t : {1.0, 2.0}) {
    for (int i = 0; i < 10000; ++i) solver->step();
    solver->resolved(y);
    const auto exact = cole_hopf(0.1, t);
    for (std::size_t k = 0; k < 3; ++k) {
      // Time error is far below rounding at this step; 20,000 steps round to about 1e-14.
      EXPECT_NEAR(y[3 + k], exact[k], 1e-12) << "psi" << k + 1 << " at t=" << t;
      EXPECT_NEAR(y[k], 0, 1e-13) << "phi" << k + 1 << " at t=" << t;
    }
  }
  EXPECT_NEAR(y[3], -.304412205592, 1e-12);  // the published digits at t = 2
  EXPECT_NEAR(y[4], .133339182190, 1e-12);
  EXPECT_NEAR(y[5], -.077504488554, 1e-12);
}

TEST(Burgers, ConvergesAtFourthOrder) {
  const auto system = make("name = 'burgers'\ngrid = 64\nviscosity = 0.2");
  const auto start = sin_x(*system);
  const auto exact = advance(*system, start, 1e-3 / 8, 8000);
  // Between dt = 1e-2 and 5e-3 the fifth-order term still bends the slope by a few hundredths.
  EXPECT_NEAR(measured_order(*system, start, exact, 1e-2, 100), 4, 0.1);
}

TEST(Burgers, NeedsOnly128PointsWhereThePaperTakes1024) {
  const auto coarse = make("name = 'burgers'\ngrid = 128"), fine = make("name = 'burgers'\ngrid = 1024");
  const auto initial_condition = coarse->initial_condition(nullptr);
  const double dt = 1e-4;
  const auto small = coarse->make_solver(dt), large = fine->make_solver(dt);
  small->start(sample(*coarse, *initial_condition, 3));
  large->start(sample(*fine, *fine->initial_condition(nullptr), 3));
  std::vector<double> a(6), b(6), ca(6), cb(6);
  for (int i = 0; i < 5000; ++i) small->step(), large->step();
  small->resolved(a), large->resolved(b);
  small->take_closure_integral(ca), large->take_closure_integral(cb);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(a[i], b[i], 1e-14);  // a few rounding errors of numbers of order 0.1
    EXPECT_NEAR(ca[i], cb[i], 1e-14);
  }
}

TEST(Burgers, RefusesStepsThatDiffusionMakesUnstable) {
  EXPECT_NEAR(*make("name = 'burgers'\ngrid = 1024")->largest_stable_dt(), 1.0625e-4, 1e-8);
  const auto system = make("name = 'burgers'\ngrid = 32");
  const double limit = *system->largest_stable_dt();
  auto state = sin_x(*system);
  state[2 * 15] = 1e-9;  // the highest mode below Nyquist, at which the bound is (16/15)^2 larger
  const double exact_limit = limit * 16 * 16 / (15 * 15);
  EXPECT_LT(std::abs(advance(*system, state, 0.99 * exact_limit, 2000)[30]), 1e-6);
  EXPECT_FALSE(std::abs(advance(*system, state, 1.10 * exact_limit, 2000)[30]) < 1e3);  // NaN in the end
}

TEST(Burgers, LosesEnergyAndKeepsItsMean) {
  const auto system = make("name = 'burgers'\ngrid = 64");
  auto state = sin_x(*system);
  double energy = system->diagnostics(state)[1].value;
  EXPECT_NEAR(energy, M_PI / 2, 1e-15);  // half the integral of sin^2
  for (int i = 0; i < 20; ++i) {
    state = advance(*system, state, 1e-3, 100);
    const auto now = system->diagnostics(state);
    EXPECT_EQ(now[0].value, 0);
    EXPECT_LT(now[1].value, energy);
    energy = now[1].value;
  }
}

}  // namespace
}  // namespace mac
