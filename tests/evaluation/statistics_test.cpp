// Distances of distributions whose values are known, and what becomes of long runs on their way to a verdict.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <mac/random.hpp>
#include <mac/verdict.hpp>
#include <numbers>

#include "support/files.hpp"

namespace mac {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t sites = 4, times = 4000;

Experiment ring() {
  return Experiment::parse(
      "[system]\nname = 'lorenz96'\nN = 4\nJ = 4\nwarmup_steps = 1\n[data]\ndt = 0.005\nstride = 2\n"
      "[data.statistics]\ntrajectories = 4\nhorizon = 39.99\n",
      "study.toml");
}

/// Four trajectories whose values are independent: the truth's standard normal, the model's mean + std · normal.
RolloutFile rollout_of(const std::string& model, double mean, double std) {
  RolloutSplit split;
  split.name = statistics_split;
  split.labels.assign(4, "");
  for (std::size_t t = 0; t < times; ++t) split.time.push_back(0.01 * static_cast<double>(t));
  RandomStream truth(1, Purpose::test_data, 0), other(2, Purpose::test_data, 0);
  for (std::size_t i = 0; i < 4 * times * sites; ++i) {
    split.true_resolved.push_back(truth.normal());
    split.resolved.push_back(mean + std * other.normal());
  }
  split.closure = split.resolved, split.true_closure = split.true_resolved;
  split.blow_up_time.assign(4, nan);
  return {model + ".h5", model, {}, ring(), {split}};
}

const Statistics& statistics_of(const Evaluation& evaluation) {
  return evaluation.models.at(0).splits.at(statistics_split).statistics.value();
}

TEST(Statistics, OfNormalDistributionsAreThoseOfTheFormulas) {
  const double mean = 0.5, std = 1.5;
  const Evaluation evaluation = evaluate({rollout_of("mac", mean, std)});
  const Statistics& statistics = statistics_of(evaluation);
  EXPECT_DOUBLE_EQ(statistics.from, 0.25 * 39.99);
  EXPECT_EQ(statistics.trajectories, 4u);
  ASSERT_EQ(statistics.quantities.size(), 3u) << "X, U and the energy: the sites of a ring are one";
  const QuantityStatistics& x = statistics.quantities[0];
  EXPECT_EQ(x.name, "X");
  // 48,000 values: means within 4/sqrt(48000) of a standard deviation.
  EXPECT_NEAR(x.mean, mean, 0.03);
  EXPECT_NEAR(x.std, std, 0.03);
  EXPECT_NEAR(x.true_mean, 0, 0.02);
  const double overlap =
      std::sqrt(2 * std / (1 + std * std)) * std::exp(-mean * mean / (4 * (1 + std * std)));
  EXPECT_NEAR(x.hellinger.value, std::sqrt(1 - overlap), 0.01);
  EXPECT_LT(x.hellinger.floor, 0.05) << "150 bins, 24,000 values in each half";
  const double kl = std::log(std) + (1 + mean * mean) / (2 * std * std) - 0.5;
  EXPECT_NEAR(x.kullback_leibler.value, kl, 0.02);
  // P(mean + std z > 2.326), and on the other side
  const auto beyond = [](double z) { return 0.5 * std::erfc(z / std::numbers::sqrt2); };
  EXPECT_NEAR(x.above, beyond((2.3263 - mean) / std), 0.01);
  EXPECT_NEAR(x.below, beyond((2.3263 + mean) / std), 0.01);
  EXPECT_NEAR(x.far_above, beyond((3.0902 - mean) / std), 0.005);
  EXPECT_NEAR(x.far_below, beyond((3.0902 + mean) / std), 0.005);
  // Neighbours are independent: the overlap of pairs is the square of that of one.
  EXPECT_NEAR(statistics.neighbours.value().value, std::sqrt(1 - overlap * overlap), 0.05);
}

TEST(Statistics, OfVariablesThatAreNoRingAverageTheirPairsOfNeighbours) {
  RolloutFile rollout = rollout_of("mac", 0, 1);
  rollout.experiment = Experiment::parse(
      "[system]\nname = 'ks'\nlength = 22.0\nmodes = 2\ngrid = 16\nwarmup_steps = 1\n[data]\ndt = 0.005\n"
      "stride = 2\n[data.statistics]\ntrajectories = 4\nhorizon = 39.99\n",
      "study.toml");
  const double independent = statistics_of(evaluate({rollout})).neighbours.value().value;
  RolloutSplit& split = rollout.splits[0];
  // The second follows the first: each alone has the distribution it had.
  for (std::size_t i = 0; i < split.resolved.size(); i += sites) split.resolved[i + 1] = split.resolved[i];
  split.resolved[0] = nan;  // masked
  const Statistics statistics = statistics_of(evaluate({rollout}));
  ASSERT_EQ(statistics.quantities[1].name, "phi2");
  EXPECT_LT(statistics.quantities[1].hellinger.value, 0.05);
  // One pair of three lies on a line, where hardly any of the truth does: a distance near 1.
  EXPECT_GT(statistics.neighbours.value().value, independent + 0.2);
}

TEST(Statistics, WassersteinsDistanceOfAShiftIsTheShift) {
  const Evaluation evaluation = evaluate({rollout_of("mac", 0.3, 1.0)});
  EXPECT_NEAR(statistics_of(evaluation).quantities[0].wasserstein.value, 0.3, 0.02);
}

TEST(Statistics, OfIndependentValuesAreWhite) {
  const Evaluation evaluation = evaluate({rollout_of("mac", 0, 2)});
  const Statistics& statistics = statistics_of(evaluation);
  EXPECT_DOUBLE_EQ(statistics.autocorrelation.values.front(), 1);
  for (std::size_t i = 1; i < statistics.autocorrelation.values.size(); ++i)
    EXPECT_NEAR(statistics.autocorrelation.values[i], 0, 0.05) << i;
  double mean = 0;
  for (const double value : statistics.power.values) mean += value;
  mean /= static_cast<double>(statistics.power.values.size());
  EXPECT_NEAR(mean, 2 * 0.01 * 4, 0.005) << "one-sided: twice the variance times the step";
}

TEST(Statistics, OfSeveralSeedsCountTheTruthOnce) {
  const auto three = [](const std::string& file) {  // an odd number: halves must not mix from file to file
    RolloutFile rollout = rollout_of("mac", 0, 1);
    rollout.path = file;
    RolloutSplit& split = rollout.splits[0];
    split.labels.resize(3), split.blow_up_time.resize(3);
    for (auto* values : {&split.resolved, &split.true_resolved, &split.closure, &split.true_closure})
      values->resize(3 * times * sites);
    return rollout;
  };
  const Evaluation one = evaluate({three("a.h5")}), two = evaluate({three("a.h5"), three("b.h5")});
  EXPECT_EQ(statistics_of(two).trajectories, 6u);
  EXPECT_EQ(statistics_of(two).quantities[0].hellinger.floor,
            statistics_of(one).quantities[0].hellinger.floor);
}

TEST(Statistics, LeaveMaskedValuesOutAndQuantitiesThatAreNotKnown) {
  RolloutFile rollout = rollout_of("mac", 0, 1);
  rollout.splits[0].true_closure.assign(rollout.splits[0].true_closure.size(), nan);
  const Evaluation evaluation = evaluate({rollout});
  ASSERT_EQ(statistics_of(evaluation).quantities.size(), 2u) << "X and the energy";
}

TEST(Statistics, ComeBackFromTheirFile) {
  const test::ScratchFolder folder;
  const Evaluation evaluation = evaluate({rollout_of("mac", 0.5, 1.5), rollout_of("markov", 1, 1)});
  test::write_bytes(folder.file("metrics.json"), metrics_text(evaluation));
  EXPECT_EQ(metrics_text(read_metrics(folder.file("metrics.json"))), metrics_text(evaluation));
}

TEST(Statistics, HaveMeanLyapunovExponentsAndTheirStandardErrors) {
  const test::ScratchFolder folder;
  RolloutFile one = rollout_of("mac", 0, 1), other = one;
  other.path = "other.h5";
  one.splits[0].lyapunov = {1.0, 2.0}, other.splits[0].lyapunov = {3.0, nan};  // NaN: blew up
  one.splits[0].true_lyapunov = other.splits[0].true_lyapunov = {1.5};
  const Evaluation evaluation = evaluate({one, other});
  const Statistics& statistics = statistics_of(evaluation);
  EXPECT_DOUBLE_EQ(statistics.lyapunov.value().mean, 2);
  EXPECT_DOUBLE_EQ(statistics.lyapunov->error, 1 / std::sqrt(3.0));
  EXPECT_EQ(statistics.lyapunov->runs, 3u);
  EXPECT_DOUBLE_EQ(statistics.true_lyapunov.value().mean, 1.5);
  EXPECT_TRUE(std::isnan(statistics.true_lyapunov->error));
  test::write_bytes(folder.file("metrics.json"), metrics_text(evaluation));
  EXPECT_EQ(metrics_text(read_metrics(folder.file("metrics.json"))), metrics_text(evaluation));
  EXPECT_EQ(tables(evaluation).back().rows,
            (std::vector<std::vector<std::string>>{{"truth", "1.500", "0.4621", "1"},
                                                   {"mac", "2.000 ± 0.5774", "0.3466", "3"}}));
}

TEST(Statistics, OfAModelThatLeavesTheAttractorAreAWarning) {
  const auto warnings = [](double std) {
    return verdicts(evaluate({rollout_of("mac", 0, std)})).at(0).warnings;
  };
  EXPECT_TRUE(warnings(1.0).empty());
  ASSERT_EQ(warnings(0.6).size(), 1u) << "of the worst quantity";
  EXPECT_NE(warnings(0.6)[0].find("mac: leaves the attractor"), std::string::npos) << warnings(0.6)[0];
}

TEST(Statistics, OfAClosureAloneAreNoWarning) {
  RolloutFile rollout = rollout_of("mac", 0, 1);
  for (double& value : rollout.splits[0].closure) value *= 0.5;
  const Evaluation evaluation = evaluate({rollout});
  ASSERT_EQ(statistics_of(evaluation).quantities[1].name, "U");
  EXPECT_GT(statistics_of(evaluation).quantities[1].hellinger.value, 0.2);
  EXPECT_TRUE(verdicts(evaluation).at(0).warnings.empty());
}

TEST(Statistics, FromATimeBeyondTheRunsAreRefused) {
  RolloutFile rollout = rollout_of("mac", 0, 1);
  StatisticsCollector collector(rollout.experiment, true, 100.0);
  EXPECT_THROW(collector.add(rollout.splits[0]), UsageError);
}

}  // namespace
}  // namespace mac
