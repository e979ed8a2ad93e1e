#include <gtest/gtest.h>

#include "systems/make.hpp"

namespace mac {
namespace {

using namespace test;

/// An array addressed as in the equations: 1-based, periodic.
struct Ring {
  const double* values;
  long size;
  double operator()(long i) const { return values[((i - 1) % size + size) % size]; }
};

TEST(Lorenz96, IsTheEquationsOfThePaper) {
  const long N = 5, J = 3;
  const double F = 7, h = 0.8, c = 6, b = 9;
  const auto system = make("name = 'lorenz96'\nN = 5\nJ = 3\nF = 7\nh = 0.8\nc = 6\nb = 9");
  const auto state = sample(*system, *initial(*system, "spread = 2\nfast_spread = 1"), 0);
  const Ring X{state.data(), N}, Y{state.data() + N, N * J};
  std::vector<double> rate(state.size()), closure(5);
  const auto solver = system->make_solver(0.005);
  solver->start(state);
  solver->full_rhs(state, rate);
  solver->closure(closure);
  const double rounding = 1e-12;  // of terms up to 100
  for (long k = 1; k <= N; ++k) {
    double U = 0;
    for (long j = J * (k - 1) + 1; j <= k * J; ++j) U -= h * c / b * Y(j);
    const auto i = static_cast<std::size_t>(k - 1);
    EXPECT_NEAR(closure[i], U, rounding);
    EXPECT_NEAR(rate[i], -X(k - 1) * (X(k - 2) - X(k + 1)) - X(k) + F + U, rounding);
  }
  for (long j = 1; j <= J * N; ++j)
    EXPECT_NEAR(rate[static_cast<std::size_t>(N + j - 1)],
                -c * b * Y(j + 1) * (Y(j + 2) - Y(j - 1)) - c * Y(j) + h * c / b * X((j - 1) / J + 1),
                rounding);
}

TEST(Lorenz96, ConvergesAtFourthOrder) {
  const auto system = make("name = 'lorenz96'");
  const auto start = advance(*system, sample(*system, *system->initial_condition(nullptr), 0), 0.005, 1000);
  const auto exact = advance(*system, start, 0.002 / 16, 800);
  EXPECT_NEAR(measured_order(*system, start, exact, 0.002, 50), 4, 0.3);  // the fast variables feel dt^5
}

TEST(Lorenz96, HasThePublishedStatisticsOnItsAttractor) {
  const auto system = make("name = 'lorenz96'");
  const auto condition = system->initial_condition(nullptr);
  const auto solver = system->make_solver(0.005);
  std::vector<double> x(8), u(8);
  double count = 0, x_sum = 0, x_square = 0, u_sum = 0, u_square = 0;
  for (std::uint32_t index = 0; index < 10; ++index) {
    RandomStream random(1, Purpose::test_data, index);
    start_trajectory(*system, *condition, index, random, *solver);
    for (int i = 0; i < 4000; ++i) {
      solver->step();
      solver->resolved(x);
      solver->closure(u);
      for (std::size_t k = 0; k < 8; ++k) {
        count += 1, x_sum += x[k], u_sum += u[k];
        x_square += x[k] * x[k], u_square += u[k] * u[k];
      }
    }
  }
  // 200 time units hold some 80 periods of the travelling wave; repeats with other seeds scatter by 0.01.
  EXPECT_NEAR(x_sum / count, 2.62, 0.04);
  EXPECT_NEAR(std::sqrt(x_square / count - std::pow(x_sum / count, 2)), 2.24, 0.04);
  EXPECT_NEAR(u_sum / count, -3.59, 0.06);
  EXPECT_NEAR(std::sqrt(u_square / count - std::pow(u_sum / count, 2)), 2.52, 0.04);
}

TEST(Lorenz96, IsWarmedUpAsManyStepsAsAsked) {
  const auto system = make("name = 'lorenz96'\nwarmup_steps = 7");
  const auto condition = system->initial_condition(nullptr);
  const auto solver = system->make_solver(0.005);
  RandomStream random(1, Purpose::test_data, 4);
  start_trajectory(*system, *condition, 4, random, *solver);
  const auto expected = advance(*system, sample(*system, *condition, 4), 0.005, 7);
  EXPECT_EQ(std::vector<double>(solver->state().begin(), solver->state().end()), expected);
  std::vector<double> integral(8, 1.0);
  solver->take_closure_integral(integral);
  EXPECT_EQ(integral, std::vector<double>(8)) << "the warm-up is not part of the trajectory";
}

TEST(Lorenz96, BalancesItsEnergy) {
  // Advection conserves energy within each ring and the coupling only passes it on:
  // d/dt (|X|^2 + |Y|^2)/2 = F sum X - |X|^2 - c |Y|^2.
  const auto system = make("name = 'lorenz96'");
  const auto state = sample(*system, *initial(*system, "spread = 3\nfast_spread = 0.5"), 1);
  std::vector<double> rate(state.size());
  system->make_solver(0.005)->full_rhs(state, rate);
  double power = 0, expected = 0;
  for (std::size_t i = 0; i < state.size(); ++i) {
    power += state[i] * rate[i];
    expected += i < 8 ? 10 * state[i] - state[i] * state[i] : -10 * state[i] * state[i];
  }
  EXPECT_NEAR(power, expected, 1e-10);  // rounding of cancelling terms of order 1e4
}

}  // namespace
}  // namespace mac
