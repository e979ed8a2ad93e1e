#include "training/lbfgs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <mac/model.hpp>
#include <mac/random.hpp>

#include "training/small_training.hpp"

namespace mac::test {
namespace {

/// sum_i c_i (w_i - i)^2 / 2 with curvatures from 1 to 1e4.
double bowl(std::span<const double> w, std::span<double> gradient) {
  double loss = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(w.size() - 1);
    const double curvature = std::pow(1e4, share), away = w[i] - static_cast<double>(i);
    loss += curvature * away * away / 2;
    gradient[i] = curvature * away;
  }
  return loss;
}

double rosenbrock(std::span<const double> w, std::span<double> gradient) {
  const double valley = w[1] - w[0] * w[0], along = 1 - w[0];
  gradient[0] = -400 * w[0] * valley - 2 * along;
  gradient[1] = 200 * valley;
  return 100 * valley * valley + along * along;
}

TEST(Lbfgs, FindsTheBottomOfABowlOfManyCurvatures) {
  std::vector<double> w(10);
  Lbfgs<double> lbfgs(bowl, w.size(), 0.1);
  // In exact arithmetic with exact line searches ten steps would do; gradient descent would need 1e4 and more.
  for (int step = 0; step < 60; ++step) lbfgs.step(w);
  for (std::size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(w[i], static_cast<double>(i), 1e-9);
}

TEST(Lbfgs, FollowsRosenbrocksValleyAndNeverGoesUp) {
  std::vector<double> w{-1.2, 1};
  Lbfgs<double> lbfgs(rosenbrock, w.size(), 0.1);
  double last = INFINITY;
  for (int step = 0; step < 60; ++step) {
    const double loss = lbfgs.step(w).loss;
    EXPECT_LE(loss, last);
    last = loss;
  }
  EXPECT_NEAR(w[0], 1, 1e-9);
  EXPECT_NEAR(w[1], 1, 1e-9);
}

TEST(Lbfgs, StaysWhereTheLossIsFinite) {
  // log w - w has its top at w = 1 and is nothing at all left of 0; from .01 the first step leads far beyond.
  const auto wall = [](std::span<const double> w, std::span<double> gradient) {
    gradient[0] = 1 - 1 / w[0];
    return w[0] > 0 ? w[0] - std::log(w[0]) : NAN;
  };
  for (const double start : {0.01, 50.0}) {
    std::vector<double> w{start};
    Lbfgs<double> lbfgs(wall, 1, 1e3);
    for (int step = 0; step < 30; ++step) lbfgs.step(w);
    EXPECT_NEAR(w[0], 1, 1e-7) << "from " << start;
  }
}

TEST(Lbfgs, GoesOnFromItsStateToTheSameBits) {
  std::vector<double> w{-1.2, 1};
  Lbfgs<double> whole(rosenbrock, w.size(), 0.1);
  for (int step = 0; step < 7; ++step) whole.step(w);
  std::vector<double> taken_up = w;
  Lbfgs<double> second(rosenbrock, w.size(), 0.1);
  second.restore(whole.state());
  for (int step = 0; step < 7; ++step) whole.step(w), second.step(taken_up);
  EXPECT_EQ(w, taken_up);
}

TEST(Lbfgs, SaysWhenThereIsNothingToGain) {
  std::vector<double> w{1, 1};
  Lbfgs<double> lbfgs(rosenbrock, w.size(), 0.1);
  EXPECT_EQ(lbfgs.step(w).length, 0);
  EXPECT_EQ(w, (std::vector<double>{1, 1}));
}

TEST(LbfgsStage, LowersTheLossAtEveryStepWithTheSameBytesForAnyNumberOfThreads) {
  const ScratchFolder folder;
  const std::string settings =
      "precision = \"float64\"\noptimiser = \"lbfgs\"\nmax_lr = 0.01\naveraging = 0\n";
  std::string text = small_experiment();
  text.replace(text.find("averaging = 0.9\n"), 16, settings);
  const Experiment experiment = Experiment::parse(text, "small.toml");
  const auto train_with = [&](int threads) {
    const std::string path = folder.file("m.safetensors");
    train(experiment, experiment.models.at(0), DataFile::open(small_data()), path, {threads, true, false});
    return read_bytes(path);
  };
  const std::string bytes = train_with(1);
  std::istringstream history(read_bytes(folder.file("m.history.csv")));
  std::string line;
  std::getline(history, line);
  double last = INFINITY;
  int rows = 0;
  for (; std::getline(history, line); ++rows) {
    const double loss = std::stod(line.substr(line.find(',') + 1));
    EXPECT_LE(loss, last) << line;
    last = loss;
  }
  EXPECT_EQ(rows, 30);
  EXPECT_EQ(bytes, train_with(2));
}

}  // namespace
}  // namespace mac::test
