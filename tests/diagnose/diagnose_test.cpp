#include <gtest/gtest.h>

#include <cmath>
#include <mac/diagnose.hpp>
#include <mac/error.hpp>
#include <mac/own_system.hpp>

namespace mac {
namespace {

DiagnosePlan plan(const std::string& system, const std::string& data, std::size_t trajectories) {
  const auto experiment = Experiment::parse("[system]\n" + system + "\n[data]\n" + data, "test.toml");
  auto result = DiagnosePlan::of(experiment, "test", trajectories);
  result.quiet = true;
  return result;
}

const std::string lorenz_data = "dt = 0.005\nstride = 2\n[data.test]\ntrajectories = 10\nhorizon = 10\n";
const std::string fourier_data = "dt = 1e-3\nstride = 10\n[data.test]\ntrajectories = 3\nhorizon = 1\n";

TEST(Diagnose, FindsTheLyapunovExponentOfLorenz96) {
  const auto estimate = lyapunov_exponent(
      plan("name = 'lorenz96'", "dt = 0.005\n[data.test]\ntrajectories = 12\nhorizon = 60\n", 12));
  EXPECT_NEAR(estimate.time, 576, 1);  // four fifths of twelve times sixty
  // Published 6.426; ten times this long gives 6.60 +- 0.02, so the bounds are four standard errors away.
  EXPECT_GT(estimate.exponent, 6.4);
  EXPECT_LT(estimate.exponent, 6.8);
  EXPECT_LT(*estimate.standard_error, 0.1);
}

TEST(Diagnose, FindsTheSlowestDecayOfADampedSystem) {
  // Every disturbance of the grid at rest dies; the slowest eigenvalue is -0.476 +- 21.34i.
  const auto estimate = lyapunov_exponent(
      plan("name = 'power_grid'", "dt = 5e-4\nstride = 2\n[data.test]\ntrajectories = 1\nhorizon = 20\n", 1));
  EXPECT_NEAR(estimate.exponent, -0.476,
              0.02);  // the start is not yet at rest; the norm breathes with the swing
  EXPECT_FALSE(estimate.standard_error);
}

TEST(Diagnose, SeesWhatKdvConservesAndBurgersLoses) {
  for (const auto& quantity : quantity_histories(plan("name = 'kdv'\ngrid = 128", fourier_data, 3), 10)) {
    EXPECT_TRUE(quantity.conserved) << quantity.name;
    EXPECT_LT(quantity.drift, 1e-8) << quantity.name;  // ETDRK4 at dt = 1e-3
    ASSERT_EQ(quantity.value.size(), 11u);
    EXPECT_DOUBLE_EQ(quantity.time.back(), 1);
  }
  const auto burgers = quantity_histories(plan("name = 'burgers'\ngrid = 64", fourier_data, 3), 10);
  EXPECT_EQ(burgers[1].name, "energy");
  EXPECT_FALSE(burgers[1].conserved);
  EXPECT_GT(*burgers[1].relative, 0.05);
}

TEST(Diagnose, MeasuresTheDecayOfTheSpectrum) {
  const auto spectrum = spectrum_decay(plan("name = 'burgers'\ngrid = 256", fourier_data, 3));
  ASSERT_TRUE(spectrum);
  ASSERT_EQ(spectrum->magnitude.size(), 6u);
  EXPECT_EQ(spectrum->magnitude[0].size(), 129u);
  EXPECT_EQ(spectrum->magnitude[0][4], 0);     // only three modes at the start
  EXPECT_GT(spectrum->magnitude[5][4], 1e-5);  // then the energy passes on
  EXPECT_LT(spectrum->tail[5], 1e-13);         // 256 points resolve it to rounding
  EXPECT_GT(spectrum->rate[5], 0.3);
  EXPECT_LT(spectrum->rate[5], 3);
  EXPECT_FALSE(spectrum_decay(
      plan("name = 'power_grid'", "dt = 5e-5\n[data.test]\ntrajectories = 1\nhorizon = 1e-2\n", 1)));
}

TEST(Diagnose, MeasuresFourthOrderForEverySystem) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"name = 'burgers'\ngrid = 64", fourier_data},
      {"name = 'kdv'\ngrid = 64", fourier_data},
      {"name = 'lorenz96'", "dt = 0.001\n[data.test]\ntrajectories = 1\nhorizon = 1\n"},
      {"name = 'power_grid'", "dt = 5e-5\n[data.test]\ntrajectories = 1\nhorizon = 1\n"}};
  for (const auto& [system, data] : cases) {
    const auto convergence = solver_convergence(plan(system, data, 1));
    ASSERT_TRUE(convergence.order) << system;
    EXPECT_NEAR(*convergence.order, 4, 0.5)
        << system;  // coarse steps feel the next order, fine ones rounding
    EXPECT_LT(convergence.error, 1e-4) << system;
  }
}

TEST(Diagnose, DescribesTheClosure) {
  const auto statistics = closure_statistics(plan("name = 'lorenz96'", lorenz_data, 10), 1000);
  ASSERT_EQ(statistics.size(), 8u);
  double mean = 0;
  for (const auto& component : statistics) {
    mean += component.mean / 8;
    EXPECT_NEAR(component.deviation, 2.52, 0.3);  // one site, 100 time units of a wave of period 2.33
    EXPECT_LT(component.minimum, component.mean - component.deviation);
    EXPECT_GT(component.maximum, component.mean + component.deviation);
    ASSERT_TRUE(component.correlation_time);
    EXPECT_NEAR(*component.correlation_time, 0.4, 0.2);  // a fraction of the wave's period
  }
  EXPECT_EQ(statistics[0].name, "U1");
  EXPECT_NEAR(mean, -3.59, 0.1);
}

TEST(Diagnose, DoesNotDependOnTheThreadCount) {
  auto one = plan("name = 'lorenz96'\nwarmup_steps = 100", lorenz_data, 4), four = one;
  one.threads = 1, four.threads = 4;
  one.horizon = four.horizon = 1;
  EXPECT_EQ(lyapunov_exponent(one).by_trajectory, lyapunov_exponent(four).by_trajectory);
  EXPECT_EQ(closure_statistics(one, 100)[3].mean, closure_statistics(four, 100)[3].mean);
}

TEST(Diagnose, SaysWhenASolverBlowsUp) {
  auto unstable = plan("name = 'lorenz96'", lorenz_data, 1);
  unstable.dt = 0.1;
  EXPECT_THROW(lyapunov_exponent(unstable), Error);
  EXPECT_THROW(closure_statistics(unstable), Error);
}

TEST(Diagnose, RefusesSplitsItCannotStart) {
  const auto experiment = Experiment::parse(
      "[system]\nname = 'lorenz96'\n[data]\ndt = 0.005\n[data.train]\ntrajectories = 1\nhorizon = 1\n"
      "[data.validation]\ncontinues = 'train'\nhorizon = 1\n",
      "test.toml");
  EXPECT_THROW(DiagnosePlan::of(experiment, "validation", 1), UsageError);
  EXPECT_THROW(DiagnosePlan::of(experiment, "test", 1), UsageError);
  EXPECT_EQ(DiagnosePlan::of(experiment, "train", 9).trajectories, 1u);
}

/// A swing that the resolved variable sees as its closure, with decay:
///   dy/dt = -y + z,   dz/dt = w,   dw/dt = -4 z;   reduced: dy/dt = -y; closure z = cos 2t
struct Swing {
  explicit Swing(const ConfigTable&) {}
  std::vector<std::string> resolved_names() const { return {"y"}; }
  std::vector<std::size_t> closure_targets() const { return {0}; }
  std::size_t full_size() const { return 3; }
  template <class Scalar>
  void reduced_rhs(const Scalar* y, Scalar* dydt) const {
    dydt[0] = -y[0];
  }
  void full_rhs(const double* s, double* rate) const {
    rate[0] = -s[0] + s[1];
    rate[1] = s[2];
    rate[2] = -4 * s[1];
  }
  void sample(RandomStream&, std::span<double> state) const { state[0] = 0.2, state[1] = 1, state[2] = 0; }
};

DiagnosePlan swing(double horizon) {
  static const bool registered = (register_system<Swing>("swing"), true);
  (void)registered;
  return plan("name = 'swing'",
              fmt::format("dt = 0.005\n[data.test]\ntrajectories = 2\nhorizon = {}\n", horizon), 2);
}

/// y(t) = y_p + (0.2 - 1/5) e^{-t} with y_p = (cos 2t + 2 sin 2t)/5, which it starts on.
double exact_y(double t) { return (std::cos(2 * t) + 2 * std::sin(2 * t)) / 5; }

TEST(Diagnose, EstimatesTheErrorThatTheSolverHas) {
  const DiagnosePlan coarse = swing(8);
  const Convergence convergence = solver_convergence(coarse);
  const auto solver = coarse.system->make_solver(coarse.dt);
  RandomStream random(0, Purpose::test_data, 0);
  start_trajectory(*coarse.system, *coarse.initial, 0, random, *solver);
  const auto steps = static_cast<int>(std::lround(convergence.horizon / coarse.dt));
  for (int i = 0; i < steps; ++i) solver->step();
  double y = 0;
  solver->resolved({&y, 1});
  // Richardson's estimate lacks the next order in dt = 0.005.
  EXPECT_NEAR(convergence.error / std::abs(y - exact_y(convergence.horizon)), 1, 0.02);
}

TEST(Diagnose, MeasuresShareAndCorrelationTimeOfAKnownClosure) {
  constexpr std::size_t samples = 40;
  constexpr double apart = 0.63;  // 126 steps
  const auto statistics = closure_statistics(swing(samples * apart), samples).at(0);
  double mean = 0, variance = 0, covariance = 0, closure_squares = 0, reduced_squares = 0;
  const auto closure = [](std::size_t k) { return std::cos(2 * apart * static_cast<double>(k)); };
  for (std::size_t k = 0; k <= samples; ++k) mean += closure(k) / (samples + 1);
  for (std::size_t k = 0; k <= samples; ++k) {
    variance += std::pow(closure(k) - mean, 2) / (samples + 1);
    closure_squares += std::pow(closure(k), 2);
    reduced_squares += std::pow(exact_y(apart * static_cast<double>(k)), 2);
    if (k > 0) covariance += (closure(k) - mean) * (closure(k - 1) - mean) / samples;
  }
  // Tolerances: the solver's error. The first lag is below 1/e already: the time lies between 0 and it.
  EXPECT_NEAR(statistics.share, std::sqrt(closure_squares / reduced_squares), 1e-6);
  EXPECT_NEAR(*statistics.correlation_time, (1 - std::exp(-1.0)) / (1 - covariance / variance) * apart, 1e-6);
}

TEST(Diagnose, GivesTheStandardErrorOfTheMeanExponent) {
  auto few = plan("name = 'lorenz96'\nwarmup_steps = 100", lorenz_data, 3);
  few.horizon = 1;
  const auto estimate = lyapunov_exponent(few);
  double squares = 0;
  for (const double value : estimate.by_trajectory) squares += std::pow(value - estimate.exponent, 2);
  EXPECT_NEAR(*estimate.standard_error, std::sqrt(squares / 2 / 3), 1e-12);
}

}  // namespace
}  // namespace mac
