#include <gtest/gtest.h>

#include <cmath>
#include <mac/diagnose.hpp>
#include <mac/error.hpp>

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

}  // namespace
}  // namespace mac
