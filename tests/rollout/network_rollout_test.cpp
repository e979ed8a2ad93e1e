// A network in tandem with the reduced equations: against a loop written out by hand, continued,
// warm-started.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <mac/model.hpp>
#include <mac/rollout.hpp>

#include "support/files.hpp"

namespace mac {
namespace {

using test::ScratchFolder;

constexpr std::size_t d = 6;

/// Data of 5 test trajectories with 20 steps, and an untrained network for them.
class NetworkRollout : public ::testing::TestWithParam<LayerKind> {
 protected:
  NetworkRollout() {
    generate(
        Experiment::parse(
            "[system]\nname = \"burgers\"\ngrid = 32\n[data]\ndt = 1e-3\nstride = 10\n"
            "[data.test]\ntrajectories = 5\nhorizon = 0.2\n[data.train]\ntrajectories = 2\nhorizon = 0.2\n",
            "study.toml"),
        folder_.file("data.h5"), {1, true});
    model_.shape = {GetParam(), d, d, 8, 2, has_states(GetParam()) ? 4u : 0u};
    model_.parameters = initial_parameters(model_.shape, 1);
    model_.normalisation = {{0.1, 0, 0, 0, 0, 0},
                            {0.4, 0.1, 0.05, 0.4, 0.1, 0.05},
                            {0, 0, 0.01, 0, 0, 0},
                            {0.1, 0.1, 0.1, 0.2, 0.2, 0.2}};
  }

  RolloutSplit roll(HeldClosure held, RolloutOptions options, const std::string& file = "out.h5") {
    options.quiet = true;
    rollout(*make_network_closure(model_, "mac", held, precision_), data_file(), folder_.file(file), options);
    return RolloutFile::open(folder_.file(file)).splits.front();
  }
  DataFile data_file() const { return DataFile::open(folder_.file("data.h5")); }

  /// The paper's algorithm for one trajectory, written out.
  template <class T>
  std::vector<double> by_hand(std::size_t trajectory, HeldClosure held) const {
    const DataFile data = data_file();
    const DataSplit split = data.split("test");
    const StepEngine<T> engine(model_.shape, parameters_as<T>(model_));
    std::vector<T> memory(engine.state_size()), x(d), c(d);
    std::vector<double> y(d), closure(d), previous(d), path;
    split.read_resolved(trajectory, 0, 1, y.data());
    const Normalisation& n = model_.normalisation;
    for (std::size_t t = 0; t < split.times(); ++t) {
      path.insert(path.end(), y.begin(), y.end());
      for (std::size_t i = 0; i < d; ++i)
        x[i] = static_cast<T>((y[i] - n.input_mean[i]) * (1 / n.input_scale[i]));
      engine.step(1, x.data(), c.data(), memory.data());
      for (std::size_t i = 0; i < d; ++i)
        closure[i] = n.output_mean[i] + n.output_scale[i] * static_cast<double>(c[i]);
      const double dt = data.experiment().data.closure_step();
      coupled_step(*data.experiment().system, dt, held, closure.data(), t > 0 ? previous.data() : nullptr,
                   y.data());
      previous = closure;
    }
    return path;
  }

  ScratchFolder folder_;
  Model model_;
  std::optional<Precision> precision_;
};

TEST_P(NetworkRollout, EqualsAHandCoupledLoopToTheLastBit) {
  for (const HeldClosure held : {HeldClosure{Hold::zero, Target::instant},
                                 {Hold::linear, Target::instant},
                                 {Hold::linear, Target::mean}}) {
    const RolloutSplit split = roll(held, {{}, 1});
    for (std::size_t i = 0; i < split.trajectories(); ++i) {
      const std::vector<double> expected = by_hand<float>(i, held);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                             split.resolved.begin() + static_cast<std::ptrdiff_t>(i * expected.size())));
    }
  }
}

TEST_P(NetworkRollout, ComputesInThePrecisionOfItsFileUnlessAskedOtherwise) {
  const HeldClosure held{Hold::linear, Target::instant};
  const std::vector<double> single = by_hand<float>(4, held), twice = by_hand<double>(4, held);
  const auto last_trajectory = [&] {
    const RolloutSplit split = roll(held, {{}, 1});
    return std::vector(split.resolved.end() - static_cast<std::ptrdiff_t>(single.size()),
                       split.resolved.end());
  };
  ASSERT_NE(single, twice);
  EXPECT_EQ(last_trajectory(), single);
  model_.dtype = Dtype::f64;
  EXPECT_EQ(last_trajectory(), twice);
  EXPECT_EQ(RolloutFile::open(folder_.file("out.h5")).precision, Precision::float64);
  precision_ = Precision::float32;
  EXPECT_EQ(last_trajectory(), single);
  EXPECT_EQ(RolloutFile::open(folder_.file("out.h5")).precision, Precision::float32);
}

TEST_P(NetworkRollout, DoesNotDependOnThreadsOrGrouping) {
  const RolloutSplit one = roll({Hold::linear, Target::instant}, {{}, 1});
  const RolloutSplit four = roll({Hold::linear, Target::instant}, {{}, 4});
  EXPECT_EQ(one.resolved, four.resolved);
  EXPECT_EQ(one.memory, four.memory);
}

TEST_P(NetworkRollout, ContinuesBitForBit) {
  for (const Hold hold : {Hold::zero, Hold::linear, Hold::stage}) {
    const HeldClosure held{hold, Target::instant};
    RolloutOptions options{{}, 1};
    options.to = 0.3;  // beyond the data
    const RolloutSplit whole = roll(held, options);
    options.to = 0.07;
    roll(held, options, "first.h5");
    options.to = 0.3;
    options.from = folder_.file("first.h5");
    const RolloutSplit second = roll(held, options, "second.h5");
    ASSERT_EQ(whole.time.size(), 31u);
    ASSERT_EQ(second.time.size(), 24u) << "t = 0.07 to 0.3";
    for (std::size_t i = 0; i < 5; ++i)
      EXPECT_TRUE(std::equal(second.resolved.begin() + static_cast<std::ptrdiff_t>(i * 24 * d),
                             second.resolved.begin() + static_cast<std::ptrdiff_t>((i + 1) * 24 * d),
                             whole.resolved.begin() + static_cast<std::ptrdiff_t>((i * 31 + 7) * d)))
          << to_string(hold);
    EXPECT_EQ(second.memory, whole.memory);
    EXPECT_TRUE(std::isnan(whole.true_resolved.back()));
    EXPECT_FALSE(std::isnan(whole.true_resolved[20 * d]));
  }
}

TEST_P(NetworkRollout, ContinuesTheSplitsThatAreThere) {
  const HeldClosure held{Hold::zero, Target::instant};
  RolloutOptions options{{"train"}, 1};
  roll(held, options, "first.h5");
  options = {{}, 1};
  options.to = 0.3;
  options.from = folder_.file("first.h5");
  EXPECT_EQ(roll(held, options, "second.h5").name, "train");
}

TEST_P(NetworkRollout, ReadsTheTruePastBeforeItRunsFree) {
  RolloutOptions options{{}, 1};
  options.history = 0.1;
  const RolloutSplit split = roll({Hold::zero, Target::instant}, options);
  for (std::size_t i = 0; i < 5; ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i * 21 * d);
    EXPECT_TRUE(std::equal(split.resolved.begin() + at, split.resolved.begin() + at + 11 * 6,
                           split.true_resolved.begin() + at));
    EXPECT_NE(split.resolved[i * 21 * d + 12 * d], split.true_resolved[i * 21 * d + 12 * d]);
  }
  const RolloutSplit free = roll({Hold::zero, Target::instant}, {{}, 1});
  if (free.memory_size != 0u) {
    EXPECT_NE(free.memory, split.memory);
  }
}

TEST_P(NetworkRollout, PredictsAtEveryStageWhenAsked) {
  // Both converge to the same limit: within a step they differ by O(dt) in the closure's change.
  const RolloutSplit held = roll({Hold::zero, Target::instant}, {{}, 1});
  const RolloutSplit staged = roll({Hold::stage, Target::instant}, {{}, 1});
  EXPECT_NE(held.resolved, staged.resolved);
  for (std::size_t i = 0; i < held.resolved.size(); ++i)
    EXPECT_NEAR(held.resolved[i], staged.resolved[i], 2e-2);
  EXPECT_THROW(make_network_closure(model_, "mac", {Hold::stage, Target::mean}), UsageError);
}

TEST_P(NetworkRollout, RefusesToContinueWhatIsNotItsOwn) {
  roll({Hold::zero, Target::instant}, {{}, 1}, "first.h5");
  RolloutOptions options{{}, 1};
  options.from = folder_.file("first.h5");
  options.to = 0.4;
  EXPECT_THROW(roll({Hold::linear, Target::instant}, options), UsageError);
  EXPECT_THROW(rollout(*make_markov(), data_file(), folder_.file("x.h5"), options), UsageError);
  precision_ = Precision::float64;
  EXPECT_THROW(roll({Hold::zero, Target::instant}, options), UsageError);
  precision_.reset();
  options.to = 0.1;  // before the end of the first
  EXPECT_THROW(roll({Hold::zero, Target::instant}, options), UsageError);

  // Fewer trajectories than there are now, and a network of this name that was made anew with other sizes.
  RolloutOptions few{{}, 1};
  few.most = 3;
  roll({Hold::zero, Target::instant}, few, "few.h5");
  options.to = 0.4;
  options.from = folder_.file("few.h5");
  EXPECT_THROW(roll({Hold::zero, Target::instant}, options), UsageError);
  if (model_.shape.state_size() == 0) return;  // nothing to remember
  options.from = folder_.file("first.h5");
  model_.shape.d_model = 12;
  model_.parameters = initial_parameters(model_.shape, 1);
  EXPECT_THROW(roll({Hold::zero, Target::instant}, options), UsageError);
}

INSTANTIATE_TEST_SUITE_P(Kinds, NetworkRollout, ::testing::ValuesIn(layer_kinds),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace mac
