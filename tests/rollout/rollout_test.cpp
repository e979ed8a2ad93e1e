// Coupled rollouts: the step's order, the holds, independence of grouping, blow-ups.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/coupling.hpp>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <mac/rollout.hpp>

#include "support/files.hpp"

namespace mac {
namespace {

using test::read_bytes;
using test::ScratchFolder;

Experiment burgers(const std::string& stride = "10") {
  return Experiment::parse(
      "[system]\nname = \"burgers\"\ngrid = 64\n[data]\ndt = 1e-3\nstride = " + stride +
          "\nseed = 2\n[data.test]\ntrajectories = 5\nhorizon = 0.4\n"
          "[data.ood]\nhorizon = 0.4\ninitial = { kind = \"fields\", fields = [\"sin\"] }\n",
      "study.toml");
}

/// Largest difference between a rollout of the exact closure and the truth, over the test split.
double floor_error(const std::string& stride, HeldClosure held) {
  const ScratchFolder folder;
  generate(burgers(stride), folder.file("data.h5"), {1, true});
  rollout(*make_exact(held), DataFile::open(folder.file("data.h5")), folder.file("out.h5"),
          {{"test"}, 1, true});
  const RolloutFile file = RolloutFile::open(folder.file("out.h5"));
  double worst = 0;
  const RolloutSplit& split = file.splits.front();
  for (std::size_t i = 0; i < split.resolved.size(); ++i)
    worst = std::max(worst, std::abs(split.resolved[i] - split.true_resolved[i]));
  return worst;
}

TEST(ExactRollout, ConvergesAtTheOrderOfItsHold) {
  // Halving the closure step: a constant closure is first order, a line through the last two second order,
  // its step mean second order. The slopes are of the largest error, so they carry some slack.
  const auto order = [](HeldClosure held) {
    return std::log2(floor_error("20", held) / floor_error("10", held));
  };
  EXPECT_NEAR(order({Hold::zero, Target::instant}), 1, 0.15);
  EXPECT_NEAR(order({Hold::linear, Target::instant}), 2, 0.5);
  EXPECT_NEAR(order({Hold::zero, Target::mean}), 2, 0.5);
}

TEST(ExactRollout, GainsByTheLinearHoldAndByTheStepMean) {
  const double zero = floor_error("10", {Hold::zero, Target::instant});
  // The first step has no earlier closure to take a slope from; that step dominates the largest error.
  EXPECT_LT(floor_error("10", {Hold::linear, Target::instant}), zero / 10);
  EXPECT_LT(floor_error("10", {Hold::zero, Target::mean}), zero / 30);
  EXPECT_LT(floor_error("10", {Hold::linear, Target::mean}), zero / 30);
}

TEST(CoupledStep, IsRk4OfTheReducedEquationsWithoutAClosure) {
  // Against a step of half the size taken twice: the difference falls by 2^5 per halving (local order five).
  const Experiment experiment = burgers();
  const System& system = *experiment.system;
  const std::vector<double> start = {0.3, -0.1, 0.04, -0.2, 0.1, 0.02};
  const std::vector<double> none(6, 0.0);
  const auto split_error = [&](double dt) {
    std::vector<double> once = start, twice = start;
    coupled_step(system, dt, {}, none.data(), nullptr, once.data());
    for (int i = 0; i < 2; ++i) coupled_step(system, dt / 2, {}, none.data(), nullptr, twice.data());
    double error = 0;
    for (std::size_t i = 0; i < 6; ++i) error = std::max(error, std::abs(once[i] - twice[i]));
    return error;
  };
  EXPECT_NEAR(std::log2(split_error(0.4) / split_error(0.2)), 5, 0.4);
}

TEST(Rollout, IsTheSameBytesForAnyThreadCount) {
  const ScratchFolder folder;
  generate(burgers(), folder.file("data.h5"), {1, true});
  const DataFile data = DataFile::open(folder.file("data.h5"));
  rollout(*make_markov(), data, folder.file("one.h5"), {{}, 1, true});
  rollout(*make_markov(), data, folder.file("four.h5"), {{}, 4, true});
  EXPECT_EQ(read_bytes(folder.file("one.h5")), read_bytes(folder.file("four.h5")));
}

TEST(Rollout, KeepsTruthLabelsAndTheModelsName) {
  const ScratchFolder folder;
  generate(burgers(), folder.file("data.h5"), {1, true});
  rollout(*make_exact({Hold::linear, Target::instant}), DataFile::open(folder.file("data.h5")),
          folder.file("out.h5"), {{}, 1, true});
  const RolloutFile file = RolloutFile::open(folder.file("out.h5"));
  EXPECT_EQ(file.model, "exact_linear");
  ASSERT_EQ(file.splits.size(), 2u);
  EXPECT_EQ(file.splits[1].name, "ood");
  EXPECT_EQ(file.splits[1].labels, std::vector<std::string>{"sin x"});
  EXPECT_EQ(file.splits[1].closure, file.splits[1].true_closure);
}

TEST(ExactRollout, EndsWhereTheDataEnd) {
  const ScratchFolder folder;
  const Experiment experiment = burgers();
  generate(experiment, folder.file("data.h5"), {1, true});
  const DataFile data = DataFile::open(folder.file("data.h5"));
  RolloutOptions options{{"test"}, 1, true};
  const double end = data.split("test").time().back();
  for (const Target target : {Target::instant, Target::mean}) {
    options.to = end;
    rollout(*make_exact({Hold::zero, target}), data, folder.file("out.h5"), options);
    options.to = end + experiment.data.closure_step();
    EXPECT_THROW(rollout(*make_exact({Hold::zero, target}), data, folder.file("beyond.h5"), options),
                 UsageError);
  }
  EXPECT_EQ(folder.count(), 2u) << "the data and the rollout within them";
}

/// Feeds trajectory 1 a closure that drives it to infinity after a few steps.
class Explosive final : public ClosureModel {
 public:
  std::string name() const override { return "explosive"; }
  HeldClosure held() const override { return {}; }
  std::unique_ptr<ClosureGroup> start(const DataSplit&, std::size_t first, std::size_t count) const override {
    struct Group final : ClosureGroup {
      std::size_t first, count;
      void predict(std::size_t n, const double*, double* closure) override {
        std::fill_n(closure, count * 6, 0.0);
        for (std::size_t i = 0; i < count; ++i)
          if (first + i == 1 && n >= 3) closure[i * 6] = 1e200;
      }
    };
    auto group = std::make_unique<Group>();
    group->first = first, group->count = count;
    return group;
  }
};

TEST(Rollout, EndsAnExplodingTrajectoryAndLeavesTheOthersAlone) {
  const ScratchFolder folder;
  generate(burgers(), folder.file("data.h5"), {1, true});
  const DataFile data = DataFile::open(folder.file("data.h5"));
  rollout(Explosive(), data, folder.file("wild.h5"), {{"test"}, 1, true});
  rollout(*make_markov(), data, folder.file("markov.h5"), {{"test"}, 1, true});
  const RolloutSplit wild = RolloutFile::open(folder.file("wild.h5")).splits.front();
  const RolloutSplit calm = RolloutFile::open(folder.file("markov.h5")).splits.front();
  const std::size_t stride = wild.time.size() * 6;
  EXPECT_DOUBLE_EQ(wild.blow_up_time[1], wild.time[3]);
  EXPECT_FALSE(std::isnan(wild.resolved[stride + 2 * 6]));
  EXPECT_TRUE(std::isnan(wild.resolved[stride + 3 * 6]));
  EXPECT_TRUE(std::isnan(wild.resolved[2 * stride - 1]));
  for (const std::size_t i : {0, 2, 3, 4}) {
    EXPECT_TRUE(std::isnan(wild.blow_up_time[i]));
    EXPECT_TRUE(std::equal(wild.resolved.begin() + static_cast<std::ptrdiff_t>(i * stride),
                           wild.resolved.begin() + static_cast<std::ptrdiff_t>((i + 1) * stride),
                           calm.resolved.begin() + static_cast<std::ptrdiff_t>(i * stride)));
  }
}

TEST(Rollout, RefusesADataFileInPlaceOfARollout) {
  const ScratchFolder folder;
  generate(burgers(), folder.file("data.h5"), {1, true});
  EXPECT_THROW(RolloutFile::open(folder.file("data.h5")), Error);
}

TEST(Rollout, BeyondTheDataIsEvaluatedAsFarAsTheyReach) {
  const ScratchFolder folder;
  generate(Experiment::parse("[system]\nname = \"burgers\"\ngrid = 32\n[data]\ndt = 1e-3\nstride = 10\n"
                             "[data.test]\ntrajectories = 2\nhorizon = 0.2\n",
                             "study.toml"),
           folder.file("data.h5"), {1, true});
  const auto metrics = [&](std::optional<double> to) {
    rollout(*make_markov(), DataFile::open(folder.file("data.h5")), folder.file("out.h5"),
            {{"test"}, 1, true, to});
    std::vector<RolloutFile> files;
    files.push_back(RolloutFile::open(folder.file("out.h5")));
    return evaluate(std::move(files)).models.front().splits.at("test");
  };
  const SplitMetrics within = metrics(std::nullopt), beyond = metrics(0.3);
  EXPECT_EQ(beyond.time, within.time);
  EXPECT_EQ(beyond.cumulative_l2.mean, within.cumulative_l2.mean);
}

TEST(CoupledStep, TakesAsManyVariablesAsASystemHas) {
  // A ring whose variables are all equal: each obeys dX/dt = F + U - X, whatever their number.
  for (const std::size_t n : {4u, 64u, 65u, 1000u}) {
    const auto ring =
        make_system(ConfigTable::parse(fmt::format("name = 'lorenz96'\nN = {}", n), "test.toml"));
    std::vector<double> x(n, 1.0), u(n, -2.0), d_x(n), d_u(n);
    const std::vector<double> start = x, ones(n, 1.0);
    coupled_step(*ring, 0.1, {}, u.data(), nullptr, x.data());
    coupled_step_adjoint(*ring, 0.1, {}, u.data(), nullptr, start.data(), ones.data(), d_x.data(), d_u.data(),
                         nullptr);
    for (std::size_t k = 0; k < n; ++k) {
      EXPECT_NEAR(x[k], 8 - 7 * std::exp(-0.1), 1e-6) << n;  // the error of RK4: 7 dt^5 / 120
      EXPECT_NEAR(d_u[k], 1 - std::exp(-0.1), 1e-6) << n;
    }
  }
}

}  // namespace
}  // namespace mac
