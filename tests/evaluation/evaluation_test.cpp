// Metrics against hand-worked cases, tables, and the paper's numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <nlohmann/json.hpp>
#include <numbers>

namespace mac {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Experiment burgers() {
  return Experiment::parse(
      "[system]\nname = \"burgers\"\ngrid = 32\nmodes = 1\n[data]\ndt = 0.01\nstride = 50\n"
      "[data.test]\ntrajectories = 2\nhorizon = 1.0\n[evaluation]\nintervals = [[0, 1], [0.5, 1]]\n",
      "study.toml");
}

/// Two trajectories of (phi1, psi1) at t = 0, 0.5, 1; the prediction of the first is off by 10 % of phi1.
RolloutFile small_rollout() {
  RolloutSplit split;
  split.name = "test";
  split.labels = {"", "sin x"};
  split.time = {0, 0.5, 1};
  split.true_resolved = {1, 0, 2, 0.5, 2, 0.5, /**/ 3, 1, 0, 1, 0, 1};
  split.resolved = {1.1, 0, 2.2, 0.5, 2.2, 0.5, /**/ 3, 1, 0, 1, 0, 1};
  split.true_closure = {1, 1, 1, 1, 1, 1, /**/ 1, 1, 1, 1, 1, 1};
  split.closure = {1, 1, 1, 1, 1, 1, /**/ 1, 0, 1, 0, 1, 0};
  split.blow_up_time = {nan, nan};
  return {"rollout.h5", "mac", {}, burgers(), {split}};
}

TEST(Evaluate, GivesRelativeErrorsPerVariableAndInterval) {
  const Evaluation evaluation = evaluate({small_rollout()});
  const SplitMetrics& metrics = evaluation.models.front().splits.at("test");
  ASSERT_EQ(metrics.intervals.size(), 2u);
  // phi1: 10 % in the first trajectory, exact in the second; the mean of 0.1 and 0, the spread 0.05.
  EXPECT_NEAR(metrics.intervals[0].resolved[0].mean, 0.05, 1e-15);
  EXPECT_NEAR(metrics.intervals[0].resolved[0].std, 0.05, 1e-15);
  EXPECT_EQ(metrics.intervals[0].resolved[1].mean, 0);
  EXPECT_NEAR(metrics.intervals[0].closure[1].mean, 0.5, 1e-15);
}

TEST(Evaluate, GivesNoRelativeErrorForAVariableThatIsAlwaysZero) {
  RolloutFile file = small_rollout();
  for (const std::size_t i : {0, 2, 4, 6, 8, 10}) file.splits.front().true_resolved[i] = 1e-17;
  const Evaluation evaluation = evaluate({file});
  const IntervalMetrics& metrics = evaluation.models.front().splits.at("test").intervals[0];
  EXPECT_TRUE(std::isnan(metrics.resolved[0].mean));
  EXPECT_FALSE(std::isnan(metrics.resolved[1].mean));
  EXPECT_EQ(tables(evaluation).front().rows[0][1], "-");
}

TEST(Evaluate, RunsTheCumulativeErrorAndTheCorrelation) {
  const SplitMetrics metrics = evaluate({small_rollout()}).models.front().splits.at("test");
  // First trajectory: sum of squared errors .01 + .04 + .04 over sum |X|^2 = 1 + 4.25 + 4.25.
  EXPECT_NEAR(metrics.cumulative_l2.mean, 0.5 * std::sqrt(0.09 / 9.5), 1e-15);
  EXPECT_NEAR(metrics.running_l2[0], 0.5 * std::sqrt(0.01 / 9.5), 1e-15);
  const double first = (1.1 + 4.4 + 0.25 + 4.4 + 0.25) / std::sqrt(9.5 * (1.21 + 2 * (4.84 + 0.25)));
  EXPECT_NEAR(metrics.correlation, 0.5 * (first + 1), 1e-14);
  EXPECT_EQ(metrics.running_centred_correlation[0], 1.0);
  EXPECT_LE(metrics.centred_correlation, 1.0);
}

TEST(Evaluate, MeasuresFieldsInPhysicalSpace) {
  const SplitMetrics metrics = evaluate({small_rollout()}).models.front().splits.at("test");
  // u - u^ = 2 * 0.1 cos x at t = 0: its L2 norm is 0.2 sqrt(pi).
  EXPECT_NEAR(metrics.physical_l2[0], 0.5 * 0.2 * std::sqrt(std::numbers::pi), 1e-14);
  EXPECT_NEAR(metrics.true_energy[0], 0.5 * (1 + 10), 1e-14);
  ASSERT_TRUE(metrics.labelled_physical_l2.contains("sin x"));
  EXPECT_EQ(metrics.labelled_physical_l2.at("sin x")[2], 0);
}

TEST(Evaluate, KeepsBlowUpsOutOfTheMeansAndReportsThem) {
  RolloutFile file = small_rollout();
  RolloutSplit& split = file.splits.front();
  split.blow_up_time[0] = 0.5;
  for (std::size_t i = 2; i < 6; ++i) split.resolved[i] = nan;
  const Evaluation evaluation = evaluate({file});
  const SplitMetrics& metrics = evaluation.models.front().splits.at("test");
  ASSERT_EQ(metrics.blow_ups.size(), 1u);
  EXPECT_EQ(metrics.blow_ups[0].time, 0.5);
  EXPECT_EQ(metrics.intervals[0].resolved[0].mean, 0) << "the second trajectory alone";
  EXPECT_EQ(metrics.trajectories, 2u);
}

TEST(Evaluate, SaysBlewUpWhenNothingIsLeft) {
  RolloutFile file = small_rollout();
  file.splits.front().blow_up_time = {0.5, 0.5};
  const Evaluation evaluation = evaluate({file});
  EXPECT_NE(render(tables(evaluation).front(), TableFormat::text).find("blew up"), std::string::npos);
  const auto json = to_json(evaluation);
  EXPECT_TRUE(json["models"]["mac"]["test"]["cumulative_l2"]["mean"].is_null());
}

TEST(Evaluate, PoolsTheSeedsOfOneModel) {
  RolloutFile exact = small_rollout();
  exact.splits.front().resolved = exact.splits.front().true_resolved;
  const Evaluation evaluation = evaluate({small_rollout(), exact});
  ASSERT_EQ(evaluation.models.size(), 1u);
  const SplitMetrics& metrics = evaluation.models.front().splits.at("test");
  EXPECT_EQ(metrics.trajectories, 4u);
  EXPECT_NEAR(metrics.intervals[0].resolved[0].mean, 0.025, 1e-15);
}

TEST(Evaluate, RefusesRolloutsOfDifferentSystems) {
  RolloutFile other = small_rollout();
  other.experiment = Experiment::parse(
      "[system]\nname = \"power_grid\"\n[data]\ndt = 5e-5\n[data.test]\ntrajectories = 1\nhorizon = 0.1\n",
      "other.toml");
  EXPECT_THROW(evaluate({small_rollout(), other}), UsageError);
  EXPECT_THROW(evaluate({}), UsageError);
}

TEST(MetricsJson, HasTheDocumentedLayout) {
  const auto json = to_json(evaluate({small_rollout()}));
  const auto& test = json["models"]["mac"]["test"];
  EXPECT_NEAR(test["intervals"]["[0,1]"]["resolved"]["phi1"]["mean"].get<double>(), 0.05, 1e-15);
  EXPECT_TRUE(test["intervals"]["[0.5,1]"]["closure"]["m1_psi"].contains("std"));
  EXPECT_TRUE(test["cumulative_l2"].contains("mean"));
  EXPECT_TRUE(test["correlation"].contains("mean"));
  EXPECT_TRUE(test["blow_ups"].is_array());
}

TEST(PaperValues, AreTheOnesInThePapersTables) {
  EXPECT_NEAR(paper_value("burgers", "mac", "test", "resolved", "[0,1]", "phi3")->mean, 0.010438, 1e-12);
  EXPECT_NEAR(paper_value("burgers", "markov", "test", "resolved", "[1,2]", "psi2")->std, 0.341128, 1e-12);
  EXPECT_NEAR(paper_value("kdv", "gru", "test", "closure", "[0,1]", "m1_psi")->mean, 1.097062, 1e-12);
  EXPECT_NEAR(paper_value("power_grid", "mac", "ood", "resolved", "[0,10]", "omega1")->mean, 0.012879, 1e-12);
  EXPECT_NEAR(paper_value("lorenz96", "wilks", "test", "resolved", "[0,20]", "X8")->mean, 0.4607, 1e-12);
  EXPECT_NEAR(paper_value("lorenz96", "mac", "test", "cumulative_l2", "", "")->mean, 0.0643, 1e-12);
  EXPECT_FALSE(paper_value("burgers", "mac", "test", "resolved", "[0,5]", "phi1"));
}

TEST(Tables, LineUpInEveryFormat) {
  const Table table{"title", {"variable", "mac"}, {{"phi1", "1.0 ± 0.1"}, {"a_b", "10"}}};
  EXPECT_EQ(
      render(table, TableFormat::text),
      "title\nvariable         mac\n--------   ---------\nphi1       1.0 ± 0.1\na_b               10\n");
  EXPECT_EQ(render(table, TableFormat::markdown),
            "**title**\n\n| variable |       mac |\n| -------- | --------: |\n| phi1     | 1.0 ± 0.1 |\n| "
            "a_b      |        10 |\n");
  EXPECT_EQ(render(table, TableFormat::csv), "# title\nvariable,mac\nphi1,1.0 ± 0.1\na_b,10\n");
  EXPECT_NE(render(table, TableFormat::latex).find("phi1 & 1.0 $\\pm$ 0.1 \\\\\n  a\\_b & 10"),
            std::string::npos);
}

}  // namespace
}  // namespace mac
