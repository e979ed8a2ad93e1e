// kind = "regression" on data whose closure is known to be what it fits.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/baselines.hpp>
#include <mac/error.hpp>
#include <mac/open_model.hpp>
#include <mac/random.hpp>

#include "support/files.hpp"

namespace mac {
namespace {

constexpr std::size_t trajectories = 20, times = 31;

std::string study(const std::string& model) {
  return "[system]\nname = 'recorded'\nresolved = ['x', 'y']\nequations = 'zero'\n[data]\ndt = 0.1\n"
         "[data.train]\ntrajectories = 20\nhorizon = 3.0\n[data.test]\ntrajectories = 20\nhorizon = 3.0\n"
         "[[models]]\nname = 'fit'\nkind = 'regression'\n" +
         model;
}

/// Random states, and the closure C_x = 2 - x + 0.5 x y + 0.3 y(t - 2 steps) + 0.1 noise, C_y = x^2, whose mean over
/// a step counts. Before the first time the past is the first state.
struct Made {
  std::vector<double> states, closure, means;
};

Made make_data(double noise) {
  RandomStream random(3, Purpose::noise, 0);
  Made made;
  for (std::size_t i = 0; i < trajectories; ++i) {
    std::vector<double> y(2 * times);
    for (double& value : y) value = 5 + 3 * random.normal();
    double e = 0;
    for (std::size_t n = 0; n < times; ++n) {
      const double a = y[2 * n], b = y[2 * n + 1], late = y[2 * (n < 2 ? 0 : n - 2) + 1];
      e = 0.8 * e + 0.6 * noise * random.normal();
      const double c[] = {2 - a + 0.5 * a * b + 0.3 * late + e, a * a};
      made.closure.insert(made.closure.end(), c, c + 2);
      if (n + 1 < times) made.means.insert(made.means.end(), c, c + 2);
    }
    made.states.insert(made.states.end(), y.begin(), y.end());
  }
  return made;
}

class RegressionBaseline : public ::testing::Test {
 protected:
  /// The closures that the fitted model gives along the data's own states, (trajectories, times, 2).
  std::vector<double> fitted(const std::string& model, const Made& made) {
    const Experiment experiment = Experiment::parse(study(model), "study.toml");
    write_data(
        experiment,
        {{"train", made.states, made.closure, made.means}, {"test", made.states, made.closure, made.means}},
        folder_.file("data.h5"));
    const DataFile data = DataFile::open(folder_.file("data.h5"));
    said_ = train_baseline(experiment, experiment.models.at(0), data, folder_.file("fit.h5"), 1, true);
    const auto closure = open_model({folder_.file("fit.h5"), "", {}, {}}, data);
    const auto group = closure->start(data.split("test"), 0, trajectories);
    std::vector<double> out(made.closure.size()), y(2 * trajectories), c(2 * trajectories);
    for (std::size_t n = 0; n < times; ++n) {
      for (std::size_t i = 0; i < trajectories; ++i)
        std::copy_n(made.states.data() + 2 * (i * times + n), 2, y.data() + 2 * i);
      group->predict(n, y.data(), c.data());
      for (std::size_t i = 0; i < trajectories; ++i)
        std::copy_n(c.data() + 2 * i, 2, out.data() + 2 * (i * times + n));
    }
    return out;
  }
  static double error(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return std::sqrt(sum / static_cast<double>(a.size()));
  }
  test::ScratchFolder folder_;
  std::string said_;
};

TEST_F(RegressionBaseline, FindsAPolynomialWithDelaysExactly) {
  const Made made = make_data(0);
  // Closures of some 50; without a ridge of its own the fit has the smallest, 1e-12.
  EXPECT_LT(error(fitted("degree = 2\ndelays = 2\nridge = 0\n", made), made.closure), 1e-8);
}

TEST_F(RegressionBaseline, MissesWhatItsTermsLeaveOut) {
  const Made made = make_data(0);
  // Without the delay 0.3 y(t - 2) is missing: 0.9 of deviation in one of two components.
  EXPECT_NEAR(error(fitted("degree = 2\n", made), made.closure), 0.9 / std::sqrt(2), 0.1);
  EXPECT_GT(error(fitted("degree = 1\ndelays = 2\n", made), made.closure), 3) << "products";
}

TEST_F(RegressionBaseline, AddsNoiseLikeThatOfTheResidual) {
  const Made made = make_data(2);
  const std::vector<double> without = fitted("degree = 2\ndelays = 2\n", made),
                            with = fitted("degree = 2\ndelays = 2\nnoise = true\nseed = 7\n", made);
  double variance = 0, products = 0, count = 0;
  for (std::size_t i = 0; i < trajectories; ++i)
    for (std::size_t n = 10; n + 1 < times; ++n) {
      const std::size_t at = 2 * (i * times + n);
      const double e = with[at] - without[at], next = with[at + 2] - without[at + 2];
      variance += e * e, products += e * next, ++count;
    }
  // Deviation 2 and correlation 0.8 from step to step; 400 correlated numbers have 45 independent ones: 11 % of 2.
  EXPECT_NEAR(std::sqrt(variance / count), 2, 0.6);
  EXPECT_NEAR(products / variance, 0.8, 0.1);
  EXPECT_EQ(fitted("degree = 2\ndelays = 2\nnoise = true\nseed = 7\n", made), with) << "the seed's noise";
}

}  // namespace
}  // namespace mac
