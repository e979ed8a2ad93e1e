// The closures for a ring of variables: Wilks' and the neighbour polynomial.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/baselines.hpp>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <mac/random.hpp>

#include "baselines/least_squares.hpp"
#include "support/files.hpp"

namespace mac {
namespace {

using test::ScratchFolder;

/// The study of the paper with fewer test trajectories.
class Lorenz96Baselines : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = std::make_unique<ScratchFolder>();
    const Experiment experiment = Experiment::parse(
        "[system]\nname = 'lorenz96'\n[data]\ndt = 0.005\nstride = 2\nseed = 1\n"
        "[data.train]\ntrajectories = 1\nhorizon = 100\n[data.test]\ntrajectories = 16\nhorizon = 20\n",
        "lorenz96.toml");
    generate(experiment, folder->file("data.h5"), {0, true});
  }
  static void TearDownTestSuite() { folder.reset(); }

  static DataFile data() { return DataFile::open(folder->file("data.h5")); }
  static SplitMetrics roll(const ClosureModel& model, int threads = 0) {
    rollout(model, data(), folder->file("out.h5"), {{"test"}, threads, true});
    std::vector<RolloutFile> files;
    files.push_back(RolloutFile::open(folder->file("out.h5")));
    return evaluate(std::move(files)).models.front().splits.at("test");
  }
  static double closure_error(const SplitMetrics& metrics) {
    double sum = 0;
    for (const MeanStd& error : metrics.intervals.front().closure) sum += error.mean / 8;
    return sum;
  }

  static inline std::unique_ptr<ScratchFolder> folder;
};

TEST_F(Lorenz96Baselines, WilksIsFittedWithThePublishedCoefficients) {
  const WilksFit fit = fit_wilks(data(), 1);
  // One training trajectory of 100 time units: three of them agree to about these margins.
  const double published[5] = {-0.19, -2.32, 0.05, 0.083, -0.0090}, margin[5] = {.05, .05, .03, .01, .001};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(fit.coefficients[i], published[i], margin[i]) << i;
  EXPECT_NEAR(fit.sigma, .78, .01);
  EXPECT_NEAR(fit.phi, .977, .002);
  EXPECT_NEAR(fit.r_squared, .905, .003);
}

TEST_F(Lorenz96Baselines, WilksRollsOutWithThePublishedErrors) {
  const SplitMetrics metrics = roll(*make_wilks(fit_wilks(data(), 1), "wilks"));
  // Published for 100 trajectories: .457-.494, .867-.884, 45 %; 16 of them scatter 2.5 times as much.
  EXPECT_NEAR(metrics.cumulative_l2.mean, .475, .05);
  EXPECT_NEAR(metrics.correlation.mean, .875, .025);
  EXPECT_NEAR(closure_error(metrics), .45, .04);
}

TEST_F(Lorenz96Baselines, ThePolynomialRollsOutWithThePublishedErrors) {
  const SplitMetrics metrics = roll(*make_polynomial(fit_polynomial(data()), "polynomial"));
  // Published for 100 trajectories: .0558 and .9982, with .052 to .060 over seeds.
  EXPECT_NEAR(metrics.cumulative_l2.mean, .056, .012);
  EXPECT_NEAR(metrics.correlation.mean, .998, .001);
}

TEST_F(Lorenz96Baselines, WilksNoiseDoesNotDependOnThreads) {
  const auto model = make_wilks(fit_wilks(data(), 5), "wilks");
  roll(*model, 1);
  const std::string one = test::read_bytes(folder->file("out.h5"));
  roll(*model, 3);
  EXPECT_EQ(one, test::read_bytes(folder->file("out.h5")));
}

TEST_F(Lorenz96Baselines, WilksContinuesToTheLastBit) {
  const auto model = make_wilks(fit_wilks(data(), 5), "wilks");
  const auto roll_to = [&](double to, const std::string& from, const std::string& name) {
    RolloutOptions options{{"test"}, 1, true, to, from};
    rollout(*model, data(), folder->file(name), options);
    return RolloutFile::open(folder->file(name)).splits.front();
  };
  const RolloutSplit whole = roll_to(2, "", "whole.h5");
  roll_to(1, "", "first.h5");
  const RolloutSplit second = roll_to(2, folder->file("first.h5"), "second.h5");
  for (std::size_t i = 0; i < whole.trajectories(); ++i)
    for (std::size_t k = 0; k < 8; ++k)
      EXPECT_EQ(whole.resolved[((i + 1) * 201 - 1) * 8 + k], second.resolved[((i + 1) * 101 - 1) * 8 + k]);
}

TEST_F(Lorenz96Baselines, AreTheSameAfterSavingAndLoading) {
  const WilksFit wilks = fit_wilks(data(), 7);
  save_wilks(wilks, data().experiment(), folder->file("wilks.h5"), "wilks");
  EXPECT_EQ(load_wilks(folder->file("wilks.h5")).coefficients, wilks.coefficients);
  EXPECT_EQ(load_wilks(folder->file("wilks.h5")).seed, 7u);
  const PolynomialFit polynomial = fit_polynomial(data());
  save_polynomial(polynomial, data().experiment(), folder->file("polynomial.h5"), "neighbours");
  EXPECT_EQ(load_polynomial(folder->file("polynomial.h5")).coefficients, polynomial.coefficients);
  EXPECT_EQ(load_baseline(folder->file("polynomial.h5"), *data().experiment().system)->name(), "neighbours");
  EXPECT_THROW(load_wilks(folder->file("polynomial.h5")), Error);
  EXPECT_FALSE(is_baseline(folder->file("data.h5")));
  EXPECT_THROW(load_baseline(folder->file("data.h5"), *data().experiment().system), Error);
}

TEST_F(Lorenz96Baselines, RefuseAnotherStepThanTheirOwn) {
  WilksFit fit = fit_wilks(data(), 1);
  fit.step = 0.005;
  EXPECT_THROW(roll(*make_wilks(fit, "wilks")), UsageError);
}

TEST_F(Lorenz96Baselines, RefuseDataOfAnotherSystem) {
  const Experiment other = Experiment::parse(
      "[system]\nname = 'lorenz96'\nN = 10\n[data]\ndt = 0.005\nstride = 2\n"
      "[data.train]\ntrajectories = 1\nhorizon = 1\n[[models]]\nkind = 'wilks'\n",
      "other.toml");
  EXPECT_THROW(train_baseline(other, other.models.at(0), data(), folder->file("wilks.h5"), 1, true),
               UsageError);
}

TEST(Wilks, TakesTheAutocorrelationWithinTrajectories) {
  const ScratchFolder folder;
  generate(
      Experiment::parse("[system]\nname = 'lorenz96'\nwarmup_steps = 500\n[data]\ndt = 0.005\nstride = 2\n"
                        "[data.train]\ntrajectories = 20\nhorizon = 0.1\n",
                        "lorenz96.toml"),
      folder.file("data.h5"), {1, true});
  const DataFile data = DataFile::open(folder.file("data.h5"));
  const DataSplit train = data.split("train");
  const WilksFit fit = fit_wilks(data, 1);
  double squares = 0, products = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    std::vector<double> x(10 * 8), u(10 * 8), residual(10 * 8);
    train.read_resolved(i, 0, 10, x.data());
    train.read_closure(i, 0, 10, u.data());
    for (std::size_t k = 0; k < 80; ++k) {
      residual[k] = u[k];
      for (std::size_t p = 0; p < 5; ++p)
        residual[k] -= fit.coefficients[p] * std::pow(x[k], static_cast<double>(p));
      squares += residual[k] * residual[k];
      if (k >= 8) products += residual[k] * residual[k - 8];
    }
  }
  const double sigma = std::sqrt(squares / (20 * 80));
  EXPECT_NEAR(fit.sigma, sigma, 1e-9);
  EXPECT_NEAR(fit.phi, products / (20 * 72) / (sigma * sigma), 1e-9);  // powers of x lose some digits
}

TEST(Wilks, HasAnAutocorrelationOfAtMostOneHoweverShortTheData) {
  // Fifth differences are what no quartic explains. Over three times they rise and fall again, so that the
  // mean of two products, 1.5, exceeds that of three squares, 1.42.
  const ScratchFolder folder;
  const std::vector<double> difference{1, -5, 10, -10, 5, -1}, size{1, 1.5, 1, 1};
  std::vector<double> x, u;
  for (const double s : size)
    for (std::size_t k = 0; k < 6; ++k) x.push_back(static_cast<double>(k)), u.push_back(s * difference[k]);
  const Experiment experiment = Experiment::parse(
      "[system]\nname = 'lorenz96'\nN = 6\n[data]\ndt = 0.01\n[data.train]\ntrajectories = 1\nhorizon = "
      "0.03\n",
      "lorenz96.toml");
  write_data(experiment, {{"train", x, u, std::span(u).first(18)}}, folder.file("data.h5"));
  const WilksFit fit = fit_wilks(DataFile::open(folder.file("data.h5")), 1);
  EXPECT_NEAR(fit.sigma, std::sqrt(252.0 / 6 * 4.25 / 3), 1e-9);  // 252 squares of the differences
  EXPECT_EQ(fit.phi, 1);
}

TEST(CyclicBaselines, AreRefusedForASystemWithoutARing) {
  const ScratchFolder folder;
  generate(Experiment::parse("[system]\nname = 'burgers'\ngrid = 64\n[data]\ndt = 1e-3\n[data.train]\n"
                             "trajectories = 1\nhorizon = 0.01\n",
                             "study.toml"),
           folder.file("data.h5"), {1, true});
  const DataFile data = DataFile::open(folder.file("data.h5"));
  EXPECT_THROW(fit_wilks(data, 0), UsageError);
  EXPECT_THROW(fit_polynomial(data), UsageError);
}

TEST(LeastSquares, RecoversAnExactPolynomialFromManyMoreRowsThanFitInABlock) {
  LeastSquares fit(3);
  RandomStream random(1, Purpose::diagnosis, 0);
  for (int i = 0; i < 20000; ++i) {
    const double x = random.normal(), row[3] = {1, x, x * x};
    fit.add(row, 0.5 - 2 * x + 3 * x * x);
  }
  const auto solution = fit.solve();
  EXPECT_NEAR(solution.coefficients[0], 0.5, 1e-13);  // rounding of a well-conditioned fit
  EXPECT_NEAR(solution.coefficients[1], -2, 1e-13);
  EXPECT_NEAR(solution.coefficients[2], 3, 1e-13);
  EXPECT_NEAR(solution.residual, 0, 1e-20);
}

TEST(LeastSquares, RefusesDependentColumns) {
  LeastSquares fit(2);
  for (int i = 0; i < 10; ++i) {
    const double row[2] = {1.0 * i, 2.0 * i};
    fit.add(row, 1);
  }
  EXPECT_THROW(fit.solve(), Error);
}

}  // namespace
}  // namespace mac
