// Models with several runs from one state: stochastic networks, ensembles of networks, Wilks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mac/baselines.hpp>
#include <mac/ensemble.hpp>
#include <mac/error.hpp>
#include <mac/model.hpp>
#include <mac/rollout.hpp>
#include <mac/runtime.hpp>

#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

using test::ScratchFolder;

constexpr std::size_t d = 8;

class StochasticRollout : public ::testing::Test {
 protected:
  StochasticRollout() {
    generate(
        Experiment::parse("[system]\nname = \"lorenz96\"\nN = 8\nJ = 4\nF = 10.0\nh = 1.0\nc = 10.0\nb = "
                          "10.0\nwarmup_steps = 100\n"
                          "[data]\ndt = 0.005\nstride = 2\n[data.train]\ntrajectories = 1\nhorizon = 2.0\n"
                          "[data.test]\ntrajectories = 5\nhorizon = 0.3\n"
                          "[data.statistics]\ntrajectories = 1\nhorizon = 0.3\n",
                          "study.toml"),
        folder_.file("data.h5"), {1, true});
    model_ = network(1);
    model_.noise = {.channels = 3, .time = 0.1};
    model_.shape.d_in += 3;
    model_.parameters = initial_parameters(model_.shape, 1);
  }

  static Model network(std::uint64_t seed) {
    Model model;
    model.shape = {LayerKind::mamba, d, d, 8, 2, 4};
    model.parameters = initial_parameters(model.shape, seed);
    model.normalisation = {std::vector<double>(d, 2.0), std::vector<double>(d, 4.0),
                           std::vector<double>(d, -1.0), std::vector<double>(d, 2.0)};
    model.closure_step = 0.01;
    return model;
  }

  RolloutFile roll(const ClosureModel& model, RolloutOptions options, const std::string& file = "out.h5") {
    options.quiet = true;
    rollout(model, DataFile::open(folder_.file("data.h5")), folder_.file(file), options);
    return RolloutFile::open(folder_.file(file));
  }
  RolloutSplit roll(RolloutOptions options, const std::string& file = "out.h5") {
    return roll(*make_network_closure(model_, "mac", {Hold::linear, Target::mean}), options, file)
        .splits.front();
  }
  static RolloutOptions several(std::size_t members, int threads = 1) {
    RolloutOptions options{{"test"}, threads};
    options.members = members;
    return options;
  }

  ScratchFolder folder_;
  Model model_;
};

class DeviatingRollout : public StochasticRollout {
 protected:
  DeviatingRollout() {
    model_ = network(1);
    model_.noise = {.channels = d, .time = 0.1};
    model_.shape.d_in += d;
    model_.shape.deviations = true;
    model_.parameters = initial_parameters(model_.shape, 1);
  }
};

TEST_F(DeviatingRollout, IsTheSameForAnyNumberOfThreadsAndAfterARestart) {
  RolloutOptions options = several(3);
  const RolloutSplit whole = roll(options);
  roll(several(3, 7), "other.h5");
  EXPECT_EQ(test::read_bytes(folder_.file("out.h5")), test::read_bytes(folder_.file("other.h5")));
  options.to = 0.17;
  roll(options, "first.h5");
  options.to = 0.3;
  options.from = folder_.file("first.h5");
  const RolloutSplit rest = roll(options, "rest.h5");
  const std::size_t run = whole.time.size() * d, rest_run = rest.time.size() * d;
  for (std::size_t row = 0; row < 5 * 3; ++row)
    EXPECT_TRUE(
        std::equal(rest.members.resolved.begin() + static_cast<std::ptrdiff_t>(row * rest_run),
                   rest.members.resolved.begin() + static_cast<std::ptrdiff_t>((row + 1) * rest_run),
                   whole.members.resolved.begin() + static_cast<std::ptrdiff_t>((row + 1) * run - rest_run)))
        << row;
}

TEST_F(DeviatingRollout, IsThatOfTheMeansWithoutNoise) {
  RolloutOptions calm = several(1);
  calm.noise = false;
  const RolloutSplit without = roll(calm), with = roll(several(1));
  EXPECT_NE(without.resolved, with.resolved);
  // The network behind it, of whose outputs the deviations are cut off.
  Model means = model_;
  means.noise = {};
  means.shape.deviations = false;
  means.shape.d_in = means.shape.d_out = d;
  const ParameterLayout from(model_.shape), to(means.shape);
  means.parameters.clear();
  for (const TensorSpec& tensor : to.tensors())
    means.parameters.insert(
        means.parameters.end(),
        model_.parameters.begin() + static_cast<std::ptrdiff_t>(from.at(tensor.name).offset),
        model_.parameters.begin() + static_cast<std::ptrdiff_t>(from.at(tensor.name).offset + tensor.size));
  const RolloutSplit expected =
      roll(*make_network_closure(means, "mac", {Hold::linear, Target::mean}), several(1)).splits.front();
  EXPECT_EQ(without.resolved, expected.resolved);
}

TEST_F(StochasticRollout, IsTheSameForAnyNumberOfThreads) {
  const RolloutSplit one = roll(several(3, 1));
  for (const int threads : {2, 7}) {
    roll(several(3, threads), "other.h5");
    EXPECT_EQ(test::read_bytes(folder_.file("out.h5")), test::read_bytes(folder_.file("other.h5")));
  }
  EXPECT_EQ(one.members.count, 3u);
}

TEST_F(StochasticRollout, GoesOnBitForBitFromAnyStep) {
  for (const std::size_t members : {1u, 3u}) {
    RolloutOptions options = several(members);
    options.to = 0.5;  // beyond the data
    options.seed = 9;
    const RolloutSplit whole = roll(options);
    for (const double stop : {0.01, 0.17, 0.4}) {
      options.to = stop;
      options.from.clear();
      roll(options, "first.h5");
      options.to = 0.5;
      options.from = folder_.file("first.h5");
      const RolloutSplit rest = roll(options, "rest.h5");
      const auto tail = [&](const std::vector<double>& of_whole, const std::vector<double>& of_rest) {
        const std::size_t rows = 5 * (of_whole.size() > 5 * whole.time.size() * d ? members : 1);
        const std::size_t a = of_whole.size() / rows, b = of_rest.size() / rows;
        for (std::size_t row = 0; row < rows; ++row)
          EXPECT_TRUE(std::equal(of_rest.begin() + static_cast<std::ptrdiff_t>(row * b),
                                 of_rest.begin() + static_cast<std::ptrdiff_t>((row + 1) * b),
                                 of_whole.begin() + static_cast<std::ptrdiff_t>((row + 1) * a - b)))
              << "stopped at " << stop << ", " << members << " members, row " << row;
      };
      tail(whole.resolved, rest.resolved);
      tail(whole.closure, rest.closure);
      if (members > 1) tail(whole.members.resolved, rest.members.resolved);
    }
  }
}

TEST_F(StochasticRollout, HasMembersThatDifferAndTheirMean) {
  const RolloutSplit alone = roll(several(1)), split = roll(several(4));
  const std::size_t run = split.time.size() * d;
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t k = 0; k < run; ++k) {
      const auto member = [&](std::size_t m) { return split.members.resolved[(i * 4 + m) * run + k]; };
      EXPECT_EQ(member(0), alone.resolved[i * run + k]);  // a rollout is the first member of an ensemble
      EXPECT_DOUBLE_EQ(split.resolved[i * run + k], (member(0) + member(1) + member(2) + member(3)) / 4);
      EXPECT_TRUE(k < 2 * d || member(0) != member(1));
    }
  RolloutOptions other = several(1);
  other.seed = 1;
  EXPECT_NE(roll(other).resolved, alone.resolved);
}

TEST_F(StochasticRollout, WithoutNoiseIsDeterministic) {
  RolloutOptions options = several(1);
  options.noise = false;
  const RolloutSplit here = roll(options);
  options.seed = 5;
  EXPECT_EQ(roll(options).resolved, here.resolved);
  EXPECT_NE(roll(several(1)).resolved, here.resolved);
}

TEST_F(StochasticRollout, KeepsLongRunsToOneMember) {
  RolloutOptions options = several(3);
  options.splits = {"statistics"};
  EXPECT_EQ(roll(options).members.count, 1u);
}

TEST_F(StochasticRollout, RefusesWhatItCannotContinue) {
  RolloutOptions options = several(2);
  options.to = 0.1;
  roll(options, "first.h5");
  options.from = folder_.file("first.h5");
  options.to = 0.2;
  options.members = 3;
  EXPECT_THROW(roll(options), UsageError);
  options.members = 2;
  options.seed = 4;
  EXPECT_THROW(roll(options), UsageError);
}

TEST_F(StochasticRollout, ReadsTheNoiseOfTheRuntime) {
  // The runtime couples nothing: its closures along the states of the rollout are those of the rollout.
  const RolloutSplit split = roll(several(1));
  save_model(model_, folder_.file("model.safetensors"));
  const runtime::Model opened(folder_.file("model.safetensors"));
  EXPECT_EQ(opened.noise(), 3u);
  EXPECT_EQ(opened.inputs(), d);
  runtime::State state(opened, 5);
  std::vector<double> y(5 * d), closure(5 * d);
  for (std::size_t t = 0; t < split.time.size(); ++t) {
    for (std::size_t k = 0; k < y.size(); ++k)
      y[k] = split.resolved[(k / d * split.time.size() + t) * d + k % d];
    state.step(y, closure);
    for (std::size_t k = 0; k < y.size(); ++k)
      ASSERT_EQ(closure[k], split.closure[(k / d * split.time.size() + t) * d + k % d]) << "step " << t;
  }
}

TEST_F(StochasticRollout, OfADeterministicModelHasOneMember) {
  const auto deterministic = make_network_closure(network(1), "mac", {});
  EXPECT_THROW(roll(*deterministic, several(2)), UsageError);
  EXPECT_THROW(roll(*make_markov(), several(2)), UsageError);
}

TEST_F(StochasticRollout, OfAnEnsembleRunsItsNetworksApart) {
  const std::vector<Model> networks{network(1), network(2), network(3)};
  const auto ensemble = make_network_closure(make_ensemble(networks, {"a", "b", "c"}), "mac", {});
  EXPECT_EQ(ensemble->most_members(), 3u);
  const RolloutSplit split = roll(*ensemble, several(3)).splits.front();
  const std::size_t run = split.time.size() * d;
  for (std::size_t m = 0; m < 3; ++m) {
    const RolloutSplit alone = roll(*make_network_closure(networks[m], "mac", {}), several(1)).splits.front();
    for (std::size_t k = 0; k < 5 * run; ++k)
      // A last layer divided by three and multiplied again may round.
      ASSERT_NEAR(split.members.resolved[(k / run * 3 + m) * run + k % run], alone.resolved[k], 1e-4);
  }
  EXPECT_THROW(roll(*ensemble, several(4)), UsageError);
  // One member is the ensemble as a model: the mean of the closures, not of the runs.
  EXPECT_NE(roll(*ensemble, several(1)).splits.front().resolved, split.resolved);
}

TEST_F(StochasticRollout, OfWilksHasMembersOfOneDistribution) {
  const auto wilks = make_wilks(fit_wilks(DataFile::open(folder_.file("data.h5")), 3), "wilks");
  const RolloutSplit alone = roll(*wilks, several(1)).splits.front(),
                     split = roll(*wilks, several(4)).splits.front();
  const std::size_t run = split.time.size() * d;
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_TRUE(std::equal(alone.resolved.begin() + static_cast<std::ptrdiff_t>(i * run),
                           alone.resolved.begin() + static_cast<std::ptrdiff_t>((i + 1) * run),
                           split.members.resolved.begin() + static_cast<std::ptrdiff_t>(i * 4 * run)));
  EXPECT_NE(split.members.resolved[run - 1], split.members.resolved[2 * run - 1]);
}

TEST_F(StochasticRollout, TellsOnTheCommandLineWhatCannotBe) {
  save_model(model_, folder_.file("noisy.safetensors"));
  save_model(network(1), folder_.file("plain.safetensors"));
  const auto roll = [&](const std::string& arguments) {
    return test::run_program("rollout " + arguments + " --data " + folder_.file("data.h5") + " -o " +
                             folder_.file("out.h5") + " --split test --quiet");
  };
  struct Case {
    std::string arguments, message;
    int code;
  };
  for (const auto& [arguments, message, code] : std::vector<Case>{
           {folder_.file("noisy.safetensors") + " --members 2 --seed 3", "", 0},
           {folder_.file("plain.safetensors") + " --members 2", "is deterministic, all its runs are the same",
            2},
           {folder_.file("noisy.safetensors") + " --members 0", "--members", 2},
           {folder_.file("noisy.safetensors") + " --device cuda", "stochastic closures run on the CPU", 2},
           {"markov --members 3", "is deterministic", 2}}) {
    const auto result = roll(arguments);
    EXPECT_EQ(result.exit_code, code) << arguments << "\n" << result.output;
    EXPECT_NE(result.output.find(message), std::string::npos) << result.output;
  }
  const auto predicted = test::run_program("predict " + folder_.file("noisy.safetensors") + " --input " +
                                           folder_.file("data.h5") + " -o " + folder_.file("p.h5"));
  EXPECT_EQ(predicted.exit_code, 2) << predicted.output;
  EXPECT_NE(predicted.output.find("is stochastic"), std::string::npos) << predicted.output;
}

}  // namespace
}  // namespace mac
