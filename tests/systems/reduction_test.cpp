// What every system promises about its reduced model, its closure and its symmetries, for random states.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <complex>
#include <thread>

#include "systems/make.hpp"

namespace mac {
namespace {

using namespace test;

const std::vector<std::string> tables{
    "name = 'burgers'\ngrid = 64", "name = 'burgers'\ngrid = 64\nmodes = 5\nviscosity = 0.3",
    "name = 'kdv'\ngrid = 64",     "name = 'ks'\ngrid = 64\nlength = 40\nmodes = 8",
    "name = 'lorenz96'",           "name = 'lorenz96'\nN = 5\nJ = 4\nF = 8\nh = 0.5\nc = 4\nb = 6",
    "name = 'power_grid'",
};

/// A full state with every variable in motion: a decaying spectrum, or numbers of the variables' usual size.
std::vector<double> random_state(const System& system, std::uint32_t seed) {
  RandomStream random(seed, Purpose::diagnosis, 0);
  std::vector<double> state(system.full_size());
  if (system.fourier_modes() > 0) {
    for (std::size_t i = 2; i + 2 < state.size(); ++i)
      state[i] = random.normal() * std::exp(-0.3 * static_cast<double>(i / 2));
  } else if (system.name() == "lorenz96") {
    for (auto& value : state) value = random.normal();
  } else {
    state = {random.normal(), random.normal(), random.normal(), random.normal(), random.uniform(0.5, 1.2)};
  }
  return state;
}

std::vector<double> resolved(const System& system, FullSolver& solver, const std::vector<double>& state) {
  solver.start(state);
  std::vector<double> y(system.resolved_size());
  solver.resolved(y);
  return y;
}
std::vector<double> closure(const System& system, FullSolver& solver, const std::vector<double>& state) {
  solver.start(state);
  std::vector<double> c(system.closure_size());
  solver.closure(c);
  return c;
}

double largest(const std::vector<double>& values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

RC_GTEST_PROP(Reduction, PlusClosureIsTheFullModel, (std::uint32_t seed)) {
  for (const auto& table : tables) {
    const auto system = make(table);
    const auto solver = system->make_solver(1e-4);
    const auto state = random_state(*system, seed);
    const auto y = resolved(*system, *solver, state), c = closure(*system, *solver, state);
    std::vector<double> sum(y.size()), rate(state.size());
    system->reduced_rhs(y.data(), sum.data());
    for (std::size_t j = 0; j < c.size(); ++j) sum[system->closure_targets()[j]] += c[j];
    solver->full_rhs(state, rate);
    const auto expected = resolved(*system, *solver, rate);  // the projection is linear
    // Rounding of sums whose terms may be larger than the result.
    const double tolerance = 1e-13 * (1 + largest(rate) + largest(c));
    for (std::size_t i = 0; i < y.size(); ++i) RC_ASSERT(std::abs(sum[i] - expected[i]) <= tolerance);
  }
}

RC_GTEST_PROP(Reduction, NeedsNoClosureWhereOnlyResolvedModesMove, (std::uint32_t seed)) {
  for (const auto& table : tables) {
    const auto system = make(table);
    if (system->fourier_modes() == 0) continue;
    auto state = random_state(*system, seed);
    std::fill(state.begin() + static_cast<std::ptrdiff_t>(2 * system->fourier_modes() + 2), state.end(), 0.0);
    const auto solver = system->make_solver(1e-4);
    for (const double value : closure(*system, *solver, state))
      RC_ASSERT(std::abs(value) <= 1e-13);  // rounding
  }
}

RC_GTEST_PROP(Reduction, HasTheTransposedJacobianOfFiniteDifferences, (std::uint32_t seed)) {
  for (const auto& table : tables) {
    const auto system = make(table);
    const auto solver = system->make_solver(1e-4);
    const auto y = resolved(*system, *solver, random_state(*system, seed));
    const std::size_t n = y.size();
    RandomStream random(seed, Purpose::diagnosis, 1);
    std::vector<double> adjoint(n), grad(n, 0.0), high(n), low(n);
    for (auto& value : adjoint) value = random.normal();
    system->reduced_rhs_vjp(y.data(), adjoint.data(), grad.data());
    const double eps = 1e-5;
    for (std::size_t j = 0; j < n; ++j) {
      auto up = y, down = y;
      up[j] += eps, down[j] -= eps;
      system->reduced_rhs(up.data(), high.data());
      system->reduced_rhs(down.data(), low.data());
      double expected = 0;
      for (std::size_t i = 0; i < n; ++i) expected += adjoint[i] * (high[i] - low[i]) / (2 * eps);
      // Rounding of the difference, 1e-16 |R^| / eps, and eps^2 R^''' for the grid (up to 200).
      RC_ASSERT(std::abs(grad[j] - expected) <= 1e-6);
    }
  }
}

/// The image of a full state under a symmetry with parameter a in [0, 1).
std::vector<double> transform(const System& system, Symmetry symmetry, double a,
                              const std::vector<double>& z) {
  std::vector<double> image(z.size());
  switch (symmetry.kind) {
    case Symmetry::Kind::fourier_translation:
      for (std::size_t k = 0; 2 * k < z.size(); ++k) {
        const auto rotated =
            std::complex(z[2 * k], z[2 * k + 1]) * std::polar(1.0, 2 * M_PI * a * static_cast<double>(k));
        image[2 * k] = rotated.real();
        image[2 * k + 1] = rotated.imag();
      }
      break;
    case Symmetry::Kind::fourier_reflection:
      for (std::size_t i = 0; i < z.size(); ++i) image[i] = i % 2 == 0 ? -z[i] : z[i];
      break;
    case Symmetry::Kind::cyclic_shift: {
      const std::size_t n = system.resolved_size(), fast = z.size() - n, width = fast / n;
      const auto shift = static_cast<std::size_t>(a * static_cast<double>(n));
      for (std::size_t k = 0; k < n; ++k) image[k] = z[(k + shift) % n];
      for (std::size_t j = 0; j < fast; ++j) image[n + j] = z[n + (j + shift * width) % fast];
      break;
    }
    case Symmetry::Kind::reflection:
      for (std::size_t i = 0; i < z.size(); ++i) image[i] = -z[i];
  }
  return image;
}

RC_GTEST_PROP(Reduction, IsEquivariantUnderItsSymmetries, (std::uint32_t seed)) {
  const double a = RandomStream(seed, Purpose::diagnosis, 2).uniform();
  for (const auto& table : tables) {
    const auto system = make(table);
    const auto solver = system->make_solver(1e-4);
    // Aliasing breaks translation by a fraction of a cell: leave the upper half of the spectrum empty.
    auto state = random_state(*system, seed);
    if (system->fourier_modes() > 0) std::fill(state.begin() + 30, state.end(), 0.0);
    for (const auto symmetry : system->symmetries()) {
      const auto image = transform(*system, symmetry, a, state);
      const auto y = resolved(*system, *solver, state), y_image = resolved(*system, *solver, image);
      // The resolved variables and the closure are transformed like the full state: place them in one.
      const auto map = [&](const std::vector<double>& values) {
        std::vector<double> full(state.size());
        const std::size_t m = system->fourier_modes();
        for (std::size_t i = 0; i < values.size(); ++i)
          full[m == 0 ? i : i < m ? 2 * (i + 1) : 2 * (i - m + 1) + 1] = values[i];
        return resolved(*system, *solver, transform(*system, symmetry, a, full));
      };
      std::vector<double> rate(y.size()), rate_image(y.size());
      system->reduced_rhs(y.data(), rate.data());
      system->reduced_rhs(y_image.data(), rate_image.data());
      const auto c = closure(*system, *solver, state), c_image = closure(*system, *solver, image);
      const auto rate_mapped = map(rate), c_mapped = map(c);
      std::vector<double> full_rate(state.size()), full_rate_image(state.size());
      solver->full_rhs(state, full_rate);
      solver->full_rhs(image, full_rate_image);
      const auto full_rate_mapped = transform(*system, symmetry, a, full_rate);
      const double tolerance = 1e-13 * (1 + largest(rate) + largest(c));  // rounding
      for (std::size_t i = 0; i < y.size(); ++i) {
        RC_ASSERT(std::abs(rate_mapped[i] - rate_image[i]) <= tolerance);
        RC_ASSERT(std::abs(c_mapped[i] - c_image[i]) <= tolerance);
      }
      for (std::size_t i = 0; i < state.size(); ++i)
        RC_ASSERT(std::abs(full_rate_mapped[i] - full_rate_image[i]) <= 1e-13 * (1 + largest(full_rate)));
    }
  }
}

TEST(Reduction, IntegratesTheClosureAlongTheTrajectory) {
  // int C dt = y(T) - y(0) - int R^(y) dt, the last by Simpson's rule on steps small enough for 1e-10.
  const std::vector<std::pair<std::string, double>> cases{{"name = 'burgers'\ngrid = 64", 1e-3},
                                                          {"name = 'kdv'\ngrid = 64", 5e-4},
                                                          {"name = 'lorenz96'\nwarmup_steps = 0", 1e-4},
                                                          {"name = 'power_grid'", 1e-5}};
  for (const auto& [table, dt] : cases) {
    const auto system = make(table);
    const auto solver = system->make_solver(dt);
    const std::size_t n = system->resolved_size();
    // Past the start, where the grid's load bus jumps within a few tenths of a millisecond.
    solver->start(advance(*system, sample(*system, *system->initial_condition(nullptr), 0), dt, 500));
    std::vector<double> y(n), rate(n), expected(n), integral(system->closure_size());
    const int steps = 200;
    for (int i = 0; i <= steps; ++i) {
      solver->resolved(y);
      system->reduced_rhs(y.data(), rate.data());
      const double weight = (i == 0 || i == steps ? 1 : i % 2 == 1 ? 4 : 2) * dt / 3;
      for (std::size_t j = 0; j < n; ++j)
        expected[j] += -weight * rate[j] + (i == 0 ? -y[j] : i == steps ? y[j] : 0);
      if (i < steps) solver->step();
    }
    solver->take_closure_integral(integral);
    for (std::size_t j = 0; j < integral.size(); ++j)
      EXPECT_NEAR(integral[j], expected[system->closure_targets()[j]], 1e-10) << table << ", component " << j;
    solver->take_closure_integral(integral);
    EXPECT_EQ(largest(integral), 0) << "taking the integral resets it";
  }
}

TEST(Reduction, GivesTheSameBytesWhateverRanBefore) {
  for (const auto& table : tables) {
    const auto system = make(table);
    const auto condition = system->initial_condition(nullptr);
    const auto run = [&](FullSolver& solver, std::uint32_t index) {
      RandomStream random(11, Purpose::train_data, index);
      start_trajectory(*system, *condition, index, random, solver);
      for (int i = 0; i < 50; ++i) solver.step();
      std::vector<double> bytes(solver.state().begin(), solver.state().end());
      bytes.resize(bytes.size() + system->closure_size());
      solver.take_closure_integral(std::span(bytes).last(system->closure_size()));
      return bytes;
    };
    const auto fresh = system->make_solver(1e-4), used = system->make_solver(1e-4);
    const auto expected = run(*fresh, 3);
    run(*used, 0);
    EXPECT_EQ(run(*used, 3), expected) << table;
    std::vector<std::vector<double>> results(4);
    std::vector<std::thread> threads;
    for (auto& result : results) threads.emplace_back([&] { result = run(*system->make_solver(1e-4), 3); });
    for (auto& thread : threads) thread.join();
    for (const auto& result : results) EXPECT_EQ(result, expected) << table;
  }
}

}  // namespace
}  // namespace mac
