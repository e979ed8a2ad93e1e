#include "training/time_left.hpp"

#include <gtest/gtest.h>

namespace mac::test {
namespace {

TrainingPlan two_stages() {
  TrainingPlan plan;
  plan.stages.resize(2);
  plan.stages[0].steps = 1000;
  plan.stages[1].steps = 100;
  return plan;
}

TEST(TimeLeft, CountsEveryStageAtItsOwnPace) {
  const TrainingPlan plan = two_stages();
  TimeLeft time(plan);
  time.count(0, 1000, 10);  // 0.01 s a step
  time.count(1, 10, 20);    // 2 s a step
  EXPECT_NEAR(time.after(1010).seconds, 180, 1e-9);
  EXPECT_NEAR(time.after(500).seconds, 5 + 200, 1e-9);
  EXPECT_FALSE(time.after(500).at_least);
  EXPECT_EQ(time.after(1100).seconds, 0);
}

TEST(TimeLeft, SaysThatAStageWithoutAPaceComesOnTop) {
  const TrainingPlan plan = two_stages();
  TimeLeft time(plan);
  time.count(0, 100, 1);
  EXPECT_NEAR(time.after(100).seconds, 9, 1e-9);
  EXPECT_TRUE(time.after(100).at_least);
}

TEST(TimeLeft, OfATrainingThatGoesOnInItsLastStageForgetsTheOthers) {
  const TrainingPlan plan = two_stages();
  TimeLeft time(plan);
  time.count(1, 5, 1);
  EXPECT_FALSE(time.after(1005).at_least);
  EXPECT_NEAR(time.after(1005).seconds, 19, 1e-9);
}

}  // namespace
}  // namespace mac::test
