// Which trials of recipe = "auto" are followed up.
#include "training/trial_choice.hpp"

#include <gtest/gtest.h>

namespace mac::test {
namespace {

Trial trial(double noise, double error, Rollouts rollouts = Rollouts::none, double max_lr = 4e-3) {
  Trial made;
  made.settings = {LayerKind::mamba, noise, max_lr, 0, rollouts, 0};
  made.steps = 500;
  made.error = error;
  return made;
}

TEST(TrialChoice, LetsTheLeastNoiseThatDidAsWellIntoTheHeatBeforeTheNextBest) {
  const std::vector<Trial> trials{trial(0.03, 0.10), trial(0.01, 0.114), trial(0.09, 0.105), trial(0, 0.5)};
  const auto entrants = heat_entrants(trials, trials[0].settings, 4e-3);
  ASSERT_EQ(entrants.size(), 3u) << "one is over twice as wrong";
  EXPECT_EQ(entrants[0].noise, 0.03);
  EXPECT_EQ(entrants[1].noise, 0.01) << "14 % worse, which a short trial cannot tell";
  EXPECT_EQ(entrants[2].noise, 0.09);
}

TEST(TrialChoice, LetsThePlannedLearningRateIntoTheHeatBesideAHigherOne) {
  const std::vector<Trial> trials{trial(0.03, 0.2), trial(0.03, 0.1, Rollouts::none, 1e-2),
                                  trial(0.03, 0.09, Rollouts::then, 1e-2)};
  const auto entrants = heat_entrants(trials, trials[0].settings, 4e-3);
  ASSERT_EQ(entrants.size(), 2u);
  EXPECT_EQ(entrants[0].max_lr, 1e-2);
  EXPECT_EQ(entrants[1].max_lr, 4e-3);
  for (const TrialSettings& entrant : entrants) EXPECT_EQ(entrant.rollouts, Rollouts::none);
}

TEST(TrialChoice, TakesRolloutsUnlessTheirTrialIsWorse) {
  std::vector<Trial> trials{trial(0.03, 0.1), trial(0.03, 0.1, Rollouts::then)};
  EXPECT_EQ(useful_rollouts(trials), Rollouts::then) << "in vain, and harmless";
  trials.push_back(trial(0.03, 0.05, Rollouts::then_whole));
  EXPECT_EQ(useful_rollouts(trials), Rollouts::then_whole);
  trials[1].error = trials[2].error = 0.2;
  EXPECT_EQ(useful_rollouts(trials), Rollouts::none);
  trials.push_back(trial(0.03, 0.3));
  trials.back().steps = 1000;
  EXPECT_EQ(useful_rollouts(trials), Rollouts::none)
      << "a longer training says nothing about a short one's rollouts";
}

TEST(TrialChoice, TakesRolloutsAloneByTheirMarginAndVariesNothingFromThem) {
  const std::vector<Trial> trials{trial(0.03, 0.4), trial(0.09, 0.3), trial(0, 0.1, Rollouts::alone)};
  EXPECT_TRUE(rollouts_alone_win(trials, 2.9));
  EXPECT_FALSE(rollouts_alone_win(trials, 3.1));
  EXPECT_FALSE(rollouts_alone_win(std::span(trials).first(2), 1)) << "there are none";
  EXPECT_EQ(best_trial(trials), 2u);
  EXPECT_EQ(front_runner(trials).noise, 0.09);
}

TEST(TrialChoice, TrainsTheBestOfTheHeatInFullUnlessRolloutsAloneAreBetter) {
  std::vector<Trial> trials{trial(0.03, 0.4), trial(0.03, 0.3, Rollouts::then),
                            trial(0, 0.1, Rollouts::alone)};
  Trial heat = trial(0.03, 0.08);
  heat.steps = 1000;
  trials.push_back(heat);
  EXPECT_EQ(choose_finalist(trials, heat.settings), trials[1].settings) << "with the rollouts that helped";
  trials.back().error = 0.11;
  EXPECT_EQ(choose_finalist(trials, heat.settings), trials[2].settings);
}

TEST(TrialChoice, FindsTheBestOfOtherSettings) {
  const std::vector<Trial> trials{trial(0.03, 0.1), trial(0.09, 0.3), trial(0.01, 0.2)};
  TrialSettings with_rollouts = trials[0].settings;
  with_rollouts.rollouts = Rollouts::then;
  const auto other = best_besides(trials, with_rollouts);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->noise, 0.01);
  EXPECT_EQ(other->rollouts, Rollouts::then);
  EXPECT_FALSE(best_besides(std::span(trials).first(1), with_rollouts).has_value());
}

}  // namespace
}  // namespace mac::test
