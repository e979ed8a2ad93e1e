#include <gtest/gtest.h>

#include <mac/linear_part.hpp>
#include <mac/rk4.hpp>

#include "systems/make.hpp"

namespace mac {
namespace {

using namespace test;

const char* const small = "name = 'ks_cells'\ncells = 16\nrefine = 4\nlength = 20";

std::vector<double> random_cells(std::size_t n, std::uint32_t seed) {
  RandomStream random(seed, Purpose::diagnosis, 0);
  std::vector<double> u(n);
  for (double& value : u) value = random.normal();
  return u;
}

std::vector<double> resolved_of(FullSolver& solver, const System& system, const std::vector<double>& u) {
  std::vector<double> y(system.resolved_size());
  solver.start(u);
  solver.resolved(y);
  return y;
}

TEST(KsCells, PlusClosureIsTheFullModelAveraged) {
  const auto system = make(small);
  const auto solver = system->make_solver(0.01);
  const auto u = random_cells(64, 1);
  std::vector<double> rate(64), sum(16), closure(16);
  const auto y = resolved_of(*solver, *system, u);
  solver->closure(closure);
  solver->full_rhs(u, rate);
  system->reduced_rhs(y.data(), sum.data());
  const auto averaged = resolved_of(*solver, *system, rate);
  // Rounding of fourth differences over dx^4, dx = 20/64: 16 / dx^4 = 1700.
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NEAR(sum[i] + closure[i], averaged[i], 1e-11);
}

TEST(KsCells, HasTheTransposedJacobianAndTheLinearPartOfItsEquations) {
  const auto system = make("name = 'ks_cells'\ncells = 7\nrefine = 4\nlength = 5");
  const auto y = random_cells(7, 2), adjoint = random_cells(7, 3);
  std::vector<double> gradient(7), high(7), low(7);
  system->reduced_rhs_vjp(y.data(), adjoint.data(), gradient.data());
  const auto l = linear_part_of(*system);
  for (std::size_t j = 0; j < 7; ++j) {
    const double eps = 1e-5;
    auto up = y, down = y;
    up[j] += eps, down[j] -= eps;
    system->reduced_rhs(up.data(), high.data());
    system->reduced_rhs(down.data(), low.data());
    double expected = 0;
    for (std::size_t i = 0; i < 7; ++i) expected += adjoint[i] * (high[i] - low[i]) / (2 * eps);
    EXPECT_NEAR(gradient[j], expected, 1e-8);  // quadratic: only rounding is left
    // At rest the Jacobian is the linear part.
    std::vector<double> only(7, 0.0), back(7, 0.0);
    only[j] = eps, back[j] = -eps;
    system->reduced_rhs(only.data(), high.data());
    system->reduced_rhs(back.data(), low.data());
    for (std::size_t i = 0; i < 7; ++i) EXPECT_NEAR(l[i * 7 + j], (high[i] - low[i]) / (2 * eps), 1e-9);
  }
}

TEST(KsCells, ConservesTheMeanAndChangesItsEnergyByTheLinearPartAlone) {
  const auto system = make("name = 'ks_cells'\ncells = 24\nrefine = 1\nlength = 20");
  const auto u = random_cells(24, 4);
  const auto l = linear_part_of(*system);
  std::vector<double> rate(24);
  system->reduced_rhs(u.data(), rate.data());
  double mass = 0, energy = 0, linear = 0, size = 0;
  for (std::size_t i = 0; i < 24; ++i) {
    mass += rate[i], energy += u[i] * rate[i];
    for (std::size_t j = 0; j < 24; ++j) linear += u[i] * l[i * 24 + j] * u[j];
    size += std::abs(u[i] * rate[i]);
  }
  EXPECT_NEAR(mass, 0, 1e-13 * size);
  EXPECT_NEAR(energy, linear, 1e-13 * size);
}

TEST(KsCells, IsTheSolutionThatRk4FindsWithTinyStepsAtFourthOrder) {
  const auto system = make(small);
  const auto start = advance(*system, sample(*system, *system->initial_condition(nullptr), 0), 0.05, 200);
  auto by_rk4 = start;
  std::vector<double> work(3 * start.size());
  const auto solver = system->make_solver(1e-3);
  for (int i = 0; i < 1000; ++i)  // 1700 dt = 1.7: stable
    rk4_step(by_rk4.size(), 1e-3, by_rk4.data(), work.data(), [&](const double* z, double* rate) {
      solver->full_rhs({z, start.size()}, {rate, start.size()});
    });
  EXPECT_LT(distance(advance(*system, start, 1e-3, 1000), by_rk4), 1e-8);
  EXPECT_NEAR(measured_order(*system, start, by_rk4, 0.02, 50), 4, 0.5);  // stiff modes come to it late
}

TEST(KsCells, ComesToTheSpectralSolutionWithFinerCells) {
  // Second order in dx: a factor of four from 128 to 256 cells, against 512 with the same start.
  const auto run = [](const std::string& cells) {
    const auto system = make("name = 'ks_cells'\nrefine = 1\nlength = 22\ncells = " + cells);
    std::vector<double> u(system->full_size());
    for (std::size_t j = 0; j < u.size(); ++j) {
      const double x = 2 * M_PI * (static_cast<double>(j) + 0.5) / static_cast<double>(u.size());
      u[j] = std::cos(x) + 0.5 * std::sin(2 * x);
    }
    u = advance(*system, u, 0.01, 500);
    std::vector<double> coarse(64);  // means
    for (std::size_t j = 0; j < u.size(); ++j)
      coarse[j * 64 / u.size()] += u[j] * 64 / static_cast<double>(u.size());
    return coarse;
  };
  const auto fine = run("512");
  EXPECT_NEAR(distance(run("128"), fine) / distance(run("256"), fine), 5, 0.5);  // (16 - 1) / (4 - 1)
}

TEST(KsCells, BeginsWithLongWavesOfASizeOfTwo) {
  const auto system = make("name = 'ks_cells'");
  EXPECT_EQ(system->full_size(), 1024u);
  EXPECT_EQ(system->resolved_size(), 128u);
  const auto u = sample(*system, *system->initial_condition(nullptr), 3);
  double sum = 0, largest = 0;
  for (const double value : u) sum += value, largest = std::max(largest, std::abs(value));
  EXPECT_NEAR(sum, 0, 1e-10);
  EXPECT_DOUBLE_EQ(largest, 2);
  EXPECT_ANY_THROW(make("name = 'ks_cells'\ncells = 5\nrefine = 5"));
  EXPECT_ANY_THROW(make("name = 'ks_cells'\ncells = 6\nrefine = 2"));
}

}  // namespace
}  // namespace mac
