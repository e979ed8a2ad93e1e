#include <gtest/gtest.h>

#include <mac/rk4.hpp>

#include "systems/make.hpp"

namespace mac {
namespace {

using namespace test;

/// A state of the attractor.
std::vector<double> on_attractor(const System& system, std::size_t index) {
  return advance(system, sample(system, *system.initial_condition(nullptr), index), 0.1, 2000);
}

double diagnostic(const System& system, const std::vector<double>& state, const std::string& name) {
  for (const Diagnostic& quantity : system.diagnostics(state))
    if (quantity.name == name) return quantity.value;
  ADD_FAILURE() << name;
  return NAN;
}

TEST(Ks, SmallWavesGrowAndDecayAsTheLinearPartSays) {
  const double length = 30, q = 2 * M_PI / length;
  const auto system = make("name = 'ks'\ngrid = 64\nlength = 30");
  for (const std::size_t k : {1, 3, 4, 5, 7}) {
    std::vector<double> theta(system->full_size(), 0.0);
    theta[2 * k] = 3e-9, theta[2 * k + 1] = -4e-9;
    const auto after = advance(*system, theta, 0.1, 20);
    const double kq = static_cast<double>(k) * q, factor = std::exp(2 * (kq * kq - kq * kq * kq * kq));
    // Products are smaller by the amplitude.
    EXPECT_NEAR(after[2 * k] / (3e-9 * factor), 1, 1e-7) << k;
    EXPECT_NEAR(after[2 * k + 1] / (-4e-9 * factor), 1, 1e-7) << k;
  }
}

TEST(Ks, ConvergesAtFourthOrder) {
  const auto system = make("name = 'ks'\ngrid = 64");
  const auto start = on_attractor(*system, 1);
  const auto exact = advance(*system, start, 0.005 / 8, 200 * 8);
  EXPECT_NEAR(measured_order(*system, start, exact, 0.005, 200), 4, 0.2);  // stiff modes come to it late
}

TEST(Ks, IsTheSolutionThatRk4FindsWithTinySteps) {
  // An independent integrator on the same right-hand side: (kq)^4 dt = 2.0 is stable for RK4.
  const auto system = make("name = 'ks'\ngrid = 32");
  const auto start = on_attractor(*system, 2);
  auto by_rk4 = start;
  std::vector<double> work(3 * start.size());
  const auto solver = system->make_solver(1e-3);
  for (int i = 0; i < 2000; ++i)
    rk4_step(by_rk4.size(), 1e-3, by_rk4.data(), work.data(), [&](const double* z, double* rate) {
      solver->full_rhs({z, start.size()}, {rate, start.size()});
    });
  EXPECT_LT(distance(advance(*system, start, 1e-3, 2000), by_rk4),
            1e-9 * distance(start, std::vector<double>(start.size())));
}

TEST(Ks, ChangesItsEnergyByProductionLessDissipation) {
  // d/dt int u^2/2 = int u_x^2 - int u_xx^2; the central difference errs by dt^2.
  const auto system = make("name = 'ks'\ngrid = 64\nlength = 36");
  for (std::size_t index = 0; index < 3; ++index) {
    const double dt = 1e-3;
    const auto before = on_attractor(*system, index), now = advance(*system, before, dt, 1),
               after = advance(*system, now, dt, 1);
    const double rate =
        (diagnostic(*system, after, "energy") - diagnostic(*system, before, "energy")) / (2 * dt);
    const double production = diagnostic(*system, now, "production");
    EXPECT_NEAR(rate, production - diagnostic(*system, now, "dissipation"), 1e-5 * production);
    EXPECT_NEAR(diagnostic(*system, after, "mass"), 0, 1e-14);
  }
}

TEST(Ks, HasTheLyapunovExponentAndTheBalanceOfItsAttractor) {
  // L = 22: 0.043 (Edson et al. 2019), 0.048 (Cvitanovic et al. 2010). Over t = 10,000 the growth rate still
  // varies by some 0.002 between trajectories.
  const auto system = make("name = 'ks'\ngrid = 32");
  const double dt = 0.25, size = 1e-7;
  const auto solver = system->make_solver(dt), neighbour = system->make_solver(dt);
  auto state = on_attractor(*system, 4), near = state;
  near[2] += size;
  double growth = 0, production = 0, dissipation = 0;
  const int pieces = 5000, steps = 8;
  for (int piece = 0; piece < pieces; ++piece) {
    solver->start(state), neighbour->start(near);
    for (int i = 0; i < steps; ++i) solver->step(), neighbour->step();
    state.assign(solver->state().begin(), solver->state().end());
    near.assign(neighbour->state().begin(), neighbour->state().end());
    const double apart = distance(state, near);
    growth += std::log(apart / size);
    for (std::size_t i = 0; i < near.size(); ++i) near[i] = state[i] + (near[i] - state[i]) * size / apart;
    production += diagnostic(*system, state, "production");
    dissipation += diagnostic(*system, state, "dissipation");
  }
  EXPECT_NEAR(growth / (pieces * steps * dt), 0.0455, 0.006);
  // Their difference is a change of energy over the time, which is bounded: only the sampling is left.
  EXPECT_NEAR(production / dissipation, 1, 0.01);
}

TEST(Ks, OffersSettingsAndRefusesWrongOnes) {
  EXPECT_EQ(make("name = 'ks'\ngrid = 64\nwarmup_steps = 7")->warmup_steps(), 7u);
  EXPECT_ANY_THROW(make("name = 'ks'\nlength = -1"));
  EXPECT_ANY_THROW(make("name = 'ks'\nwarmup_steps = -1"));
}

}  // namespace
}  // namespace mac
