// Whether a closure is better than none, and each thing that speaks against it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mac/verdict.hpp>
#include <nlohmann/json.hpp>

#include "support/files.hpp"

namespace mac {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Experiment burgers() {
  return Experiment::parse(
      "[system]\nname = \"burgers\"\ngrid = 32\nmodes = 1\n[data]\ndt = 0.01\nstride = 50\n"
      "[data.train]\ntrajectories = 2\nhorizon = 1.0\n[data.test]\ntrajectories = 2\nhorizon = 1.0\n"
      "[data.ood]\ntrajectories = 2\nhorizon = 1.0\n"
      "[evaluation]\nintervals = [[0.5, 1], [0, 1]]\n",
      "study.toml");
}

/// Two trajectories of (phi1, psi1) = (1, 1) at three times; phi1 is off by the fraction a, psi1 by b.
RolloutFile rollout_of(const std::string& model, double a, double b, const std::string& name = "test") {
  RolloutSplit split;
  split.name = name;
  split.labels = {"", ""};
  split.time = {0, 0.5, 1};
  split.true_resolved.assign(12, 1.0);
  for (int i = 0; i < 6; ++i) split.resolved.insert(split.resolved.end(), {1 + a, 1 + b});
  split.true_closure = split.closure = split.true_resolved;
  split.blow_up_time = {nan, nan};
  return {model + name + ".h5", model, {}, burgers(), {split}};
}

Verdict only(const std::vector<RolloutFile>& rollouts) {
  const std::vector<Verdict> all = verdicts(evaluate(rollouts));
  EXPECT_EQ(all.size(), 1u);
  return all.at(0);
}

void expect_warning(const Verdict& verdict, const std::string& text) {
  ASSERT_EQ(verdict.warnings.size(), 1u);
  EXPECT_EQ(verdict.warnings[0], text);
}

TEST(Verdict, IsTheGeometricMeanOverVariablesOfTheRatioToNoClosure) {
  // .4/.1 = 4 and .9/.1 = 9: sqrt(36) = 6. Against exact .1/.05 and .1/.2: 1.
  const Verdict verdict = only(
      {rollout_of("mac", 0.1, 0.1), rollout_of("markov", 0.4, 0.9), rollout_of("exact_linear", 0.05, 0.2)});
  ASSERT_EQ(verdict.comparisons.size(), 1u);
  EXPECT_EQ(verdict.comparisons[0].interval, "[0,1]") << "the longest";
  EXPECT_NEAR(verdict.comparisons[0].better.value(), 6, 1e-12);
  EXPECT_NEAR(verdict.comparisons[0].above_floor.value(), 1, 1e-12);
  EXPECT_EQ(
      verdict.sentence,
      "mac: 6 times better than no closure on test data over [0,1]; its error is 1 times that of the exact "
      "closure");
  EXPECT_TRUE(verdict.warnings.empty());
}

TEST(Verdict, WritesLargeFactorsInThreeDigitsAndThousands) {
  const auto better = [](double mine, double none) {
    const std::string said = only({rollout_of("mac", mine, mine), rollout_of("markov", none, none)}).sentence;
    return said.substr(0, said.find(" no closure"));
  };
  EXPECT_EQ(better(1e-4, 0.0999), "mac: 999 times better than");
  EXPECT_EQ(better(1e-4, 0.09996), "mac: 1,000 times better than");
  EXPECT_EQ(better(1e-4, 1.849), "mac: 18,500 times better than");
  EXPECT_EQ(better(1.2345e-6, 8.7), "mac: 7,050,000 times better than");
  EXPECT_EQ(better(8.7, 1e-3), "mac: 8,700 times worse than");
}

TEST(Verdict, LeavesOutVariablesThatTheClosureDoesNotReach) {
  const auto better = [](const RolloutFile& mine, const RolloutFile& none) {
    return only({mine, none}).comparisons.at(0).better.value();
  };
  EXPECT_NEAR(better(rollout_of("mac", 0.1, 0.3), rollout_of("markov", 0.4, 0.3)), 4, 1e-12);
  EXPECT_EQ(better(rollout_of("mac", 0.1, 0.3), rollout_of("markov", 0.1, 0.3)), 1) << "no closure at all";
}

TEST(Verdict, SaysThatALossIsBeyondTheTrainingHorizon) {
  RolloutFile mine = rollout_of("mac", 0.4, 0.4), none = rollout_of("markov", 0.2, 0.2);
  std::string text = burgers().config.text();
  text.replace(text.find("horizon = 1.0"), 13, "horizon = 0.5");
  text.replace(text.find("[[0.5, 1], [0, 1]]"), 18, "[[0, 0.5], [0.5, 1]]");
  mine.experiment = none.experiment = Experiment::parse(text, "study.toml");
  const Verdict verdict = only({mine, none});
  ASSERT_EQ(verdict.warnings.size(), 2u);
  EXPECT_EQ(verdict.warnings[0],
            "mac: the closure is 2 times worse than no closure on test data over [0,0.5]");
  EXPECT_EQ(verdict.warnings[1],
            "mac: the closure is 2 times worse than no closure on test data over [0.5,1], beyond the "
            "training horizon of 0.5");
}

TEST(Verdict, WarnsOfAClosureThatLosesToNone) {
  const Verdict verdict = only({rollout_of("mac", 0.4, 0.4), rollout_of("markov", 0.2, 0.2)});
  EXPECT_EQ(verdict.sentence, "mac: 2 times worse than no closure on test data over [0,1]");
  ASSERT_EQ(verdict.warnings.size(), 2u) << "over both intervals";
  EXPECT_EQ(verdict.warnings[1], "mac: the closure is 2 times worse than no closure on test data over [0,1]");
}

TEST(Verdict, WarnsOfALossOutOfDistributionAlone) {
  RolloutFile mac = rollout_of("mac", 0.1, 0.1), markov = rollout_of("markov", 0.2, 0.2);
  mac.splits.push_back(rollout_of("mac", 0.3, 0.3, "ood").splits.front());
  markov.splits.push_back(rollout_of("markov", 0.2, 0.2, "ood").splits.front());
  const Verdict verdict = only({mac, markov});
  EXPECT_EQ(
      verdict.sentence,
      "mac: 2 times better than no closure on test data over [0,1], 1.5 times worse than no closure out of "
      "distribution over [0,1]");
  expect_warning(verdict,
                 "mac: the closure is 1.5 times worse than no closure out of distribution over [0,1]");
}

TEST(Verdict, ComparesWithANetworkWithoutMemory) {
  const auto all = verdicts(
      evaluate({rollout_of("mac", 0.1, 0.1), rollout_of("mlp", 0.4, 0.9), rollout_of("markov", 1, 1)}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_NEAR(all[0].comparisons[0].memory.value(), 6, 1e-12);
  EXPECT_EQ(all[0].sentence,
            "mac: 10 times better than no closure on test data over [0,1]; 6 times better than mlp, which "
            "has no memory");
  EXPECT_FALSE(all[1].comparisons[0].memory) << "not with itself";
  EXPECT_TRUE(all[0].warnings.empty());
}

TEST(Verdict, WarnsOfMemoryThatDoesNotHelp) {
  const auto all = verdicts(
      evaluate({rollout_of("mac", 0.4, 0.4), rollout_of("mlp", 0.2, 0.2), rollout_of("markov", 1, 1)}));
  expect_warning(
      all.at(0),
      "mac: the closure is 2 times worse than mlp, which has no memory: memory does not help here, or is not "
      "trained enough");
}

TEST(Verdict, SaysThatThereIsNoComparison) {
  const Verdict verdict = only({rollout_of("mac", 0.1, 0.1)});
  EXPECT_FALSE(verdict.comparisons[0].better);
  EXPECT_EQ(verdict.sentence,
            "mac: no rollout of markov (no closure) is among the files, so there is no comparison with it");
}

TEST(Verdict, WarnsOfBlowUps) {
  RolloutFile mac = rollout_of("mac", 0.1, 0.1);
  mac.splits[0].blow_up_time[1] = 0.5;
  expect_warning(only({mac, rollout_of("markov", 0.2, 0.2)}),
                 "mac: 1 of 2 rollouts on test data blew up, the first at t = 0.5; they are in no mean");
  mac.splits[0].blow_up_time[0] = 1;
  const Verdict all = only({mac, rollout_of("markov", 0.2, 0.2)});
  EXPECT_EQ(all.sentence, "mac: every rollout on test data blew up");
  EXPECT_EQ(all.warnings.size(), 1u);
}

TEST(Verdict, IsBetterThanWhatBlowsUp) {
  RolloutFile markov = rollout_of("markov", 0.1, 0.1);
  markov.splits[0].blow_up_time = {0.5, 0.5};
  const Verdict verdict = only({rollout_of("mac", 0.1, 0.1), markov});
  EXPECT_TRUE(std::isinf(verdict.comparisons[0].better.value()));
  EXPECT_EQ(verdict.sentence, "mac: better than no closure, which blows up, on test data over [0,1]");
  EXPECT_TRUE(verdict.warnings.empty());
}

TEST(Verdict, WarnsWhereValidationAndTestPart) {
  RolloutFile mac = rollout_of("mac", 0.1, 0.1);
  mac.validation = {0.5, 0.04};
  const RolloutFile markov = rollout_of("markov", 0.2, 0.2);
  EXPECT_TRUE(only({mac, markov}).warnings.empty()) << "a factor of 2.5 may be chance";
  mac.validation = {0.5, 0.02};
  expect_warning(
      only({mac, markov}),
      "mac: validation and test part: the error over 0.5 of time is 10 % on test data, 5 times the 2 % "
      "on validation data");
}

TEST(Verdict, WarnsWhereTheStateLeavesTheRangeOfTheTrainingData) {
  RolloutFile mac = rollout_of("mac", 0.1, 0.1);
  const RolloutFile markov = rollout_of("markov", 0.2, 0.2);
  mac.training_range = {{0, 0}, {1.1, 2}};
  EXPECT_TRUE(only({mac, markov}).warnings.empty()) << "1.1 is inside [0, 1.1]";
  mac.training_range = {{0, 0}, {1.05, 2}};
  EXPECT_TRUE(only({mac, markov}).warnings.empty()) << "a twentieth of the width is allowed";
  mac.training_range = {{0, 0}, {1.02, 2}};
  expect_warning(only({mac, markov}),
                 "mac: the state on test data leaves the range of the training data in 100 % "
                 "of the steps (phi1 100 %; the truth 0 %)");
  // Out of distribution the truth is outside as well.
  RolloutFile far = rollout_of("mac", 0.1, 0.1, "ood");
  far.training_range = {{0, 0}, {0.5, 2}};
  EXPECT_TRUE(only({far, rollout_of("markov", 0.2, 0.2, "ood")}).warnings.empty());
}

TEST(Verdict, IsInTheMetricsAndTheSameFromStoredOnes) {
  RolloutFile mac = rollout_of("mac", 0.4, 0.4);
  mac.validation = {0.5, 0.02};
  mac.training_range = {{0, 0}, {1.02, 2}};
  const Evaluation evaluation = evaluate({mac, rollout_of("markov", 0.2, 0.2)});
  const auto json = to_json(evaluation);
  const auto& stored = json["verdict"]["models"]["mac"];
  EXPECT_EQ(stored["comparisons"][0]["better_than_no_closure"], 0.5);
  EXPECT_EQ(stored["warnings"].size(), 4u);
  const test::ScratchFolder folder;
  test::write_bytes(folder.file("metrics.json"), metrics_text(evaluation));
  EXPECT_EQ(to_json(read_metrics(folder.file("metrics.json"))), json);
}

}  // namespace
}  // namespace mac
