// Rollouts on the device against the CPU's.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/cuda.hpp>
#include <mac/ensemble.hpp>
#include <mac/error.hpp>
#include <mac/model.hpp>
#include <mac/rollout.hpp>

#include "cuda/arrays.hpp"
#include "cuda/written_systems.hpp"
#include "support/files.hpp"

namespace mac::test {
namespace {

class CudaRollout : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
  }

  /// Data of a system, and an untrained network for them with scales near the data's.
  void make(const std::string& system, std::size_t trajectories, LayerKind kind, std::size_t d_model,
            const NetworkInputs& inputs = {}) {
    generate(Experiment::parse("[system]\n" + system + "[data.test]\ntrajectories = " +
                                   std::to_string(trajectories) + "\nhorizon = 0.2\n",
                               "study.toml"),
             folder_.file("data.h5"), {2, true});
    const DataFile data = DataFile::open(folder_.file("data.h5"));
    const std::size_t d = data.experiment().system->resolved_size(),
                      c = data.experiment().system->closure_size();
    const std::size_t n = (inputs.state.empty() ? d : inputs.state.size()) + inputs.given.size();
    model_ = {};
    model_.inputs = inputs;
    model_.shape = {kind, n, c, d_model, 2, kind == LayerKind::mamba ? 5u : 0u};
    model_.parameters = initial_parameters(model_.shape, 1);
    model_.normalisation = {std::vector<double>(n, 0.01), std::vector<double>(n, 0.5),
                            std::vector<double>(c, 0.02), std::vector<double>(c, 0.3)};
  }
  RolloutSplit roll(bool on_device, HeldClosure held, RolloutOptions options = {},
                    const std::string& file = "out.h5") {
    options.quiet = true;
    const DataFile data = DataFile::open(folder_.file("data.h5"));
    const auto system = data.experiment().system;
    const auto model = on_device ? make_device_network_closure(model_, "mac", held, system)
                                 : make_network_closure(model_, "mac", held, {}, system);
    rollout(*model, data, folder_.file(file), options);
    return RolloutFile::open(folder_.file(file)).splits.front();
  }

  /// Whether the second half of a rollout, taken up from the file of the first, has the bits of the whole.
  void expect_to_go_on(std::size_t trajectories, std::size_t d) {
    const HeldClosure held{Hold::linear, Target::instant};
    const RolloutSplit whole = roll(true, held);
    RolloutOptions half, rest;
    half.to = 0.1;
    roll(true, held, half, "half.h5");
    rest.from = folder_.file("half.h5");
    const RolloutSplit second = roll(true, held, rest, "rest.h5");
    const std::size_t times = whole.time.size(), later = second.time.size();
    for (std::size_t i = 0; i < trajectories; ++i)
      EXPECT_TRUE(
          std::equal(second.resolved.begin() + static_cast<std::ptrdiff_t>(i * later * d),
                     second.resolved.begin() + static_cast<std::ptrdiff_t>((i + 1) * later * d),
                     whole.resolved.begin() + static_cast<std::ptrdiff_t>((i * times + times - later) * d)));
  }

  ScratchFolder folder_;
  Model model_;
};

NetworkInputs reading(std::vector<std::string> state, std::vector<std::string> given,
                      Frame frame = Frame::none) {
  return {std::move(state), std::move(given), {}, {}, frame};
}

/// Of numbers above 1 relative to them. Where one alone is NaN it is infinite.
double largest_relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (!std::isnan(a[i]) || !std::isnan(b[i]))
      largest = larger(largest, std::abs(a[i] - b[i]) / (1 + std::abs(b[i])));
  return largest;
}

const std::string burgers = "name = 'burgers'\ngrid = 32\n[data]\ndt = 1e-3\nstride = 10\n",
                  lorenz = "name = 'lorenz96'\nJ = 4\nwarmup_steps = 50\n[data]\ndt = 5e-3\nstride = 2\n",
                  grid = "name = 'power_grid'\n[data]\ndt = 2e-4\nstride = 50\n",
                  five_modes = "name = 'kdv'\nmodes = 5\ngrid = 32\n[data]\ndt = 5e-3\nstride = 2\n";

TEST_F(CudaRollout, FollowsTheCpuForEverySystemAndHold) {
  std::vector<std::string> systems{burgers, lorenz, grid, five_modes};
  systems.insert(systems.end(), written_systems.begin(), written_systems.end());
  for (const std::string& system : systems)
    for (const LayerKind kind : {LayerKind::mamba, LayerKind::gru}) {
      make(system, 5, kind, 22);
      for (const HeldClosure held : {HeldClosure{Hold::zero, Target::instant},
                                     {Hold::linear, Target::instant},
                                     {Hold::linear, Target::mean}}) {
        const RolloutSplit cpu = roll(false, held), cuda = roll(true, held);
        // Twenty steps of networks in float32, whose rounding the states feed back.
        EXPECT_LT(largest_relative_difference(cuda.resolved, cpu.resolved), 1e-6)
            << system << to_string(kind);
        EXPECT_LT(largest_relative_difference(cuda.closure, cpu.closure), 5e-6) << system << to_string(kind);
        EXPECT_LT(largest_relative_difference(cuda.memory, cpu.memory), 5e-6) << system << to_string(kind);
      }
    }
}

/// The same equations, whose numbers the device may round in another order.
TEST_F(CudaRollout, OfEquationsAsTextIsThatOfTheBuiltInSystem) {
  make(lorenz, 300, LayerKind::mamba, 22);
  const HeldClosure held{Hold::linear, Target::instant};
  const RolloutSplit built_in = roll(true, held);
  make(written_lorenz, 300, LayerKind::mamba, 22);
  EXPECT_LT(largest_relative_difference(roll(true, held).resolved, built_in.resolved), 1e-6);
}

TEST_F(CudaRollout, OfManyTrajectoriesGivesTheBitsOfFew) {
  for (const LayerKind kind : {LayerKind::mamba, LayerKind::gru}) {
    make(burgers, 2000, kind, 22);
    const RolloutSplit many = roll(true, {Hold::linear, Target::instant});
    make(burgers, 7, kind, 22);
    const RolloutSplit few = roll(true, {Hold::linear, Target::instant});
    EXPECT_TRUE(std::equal(few.resolved.begin(), few.resolved.end(), many.resolved.begin()))
        << to_string(kind);
  }
}

TEST_F(CudaRollout, FollowsTheCpuWithOtherInputs) {
  const std::string driven = burgers + "[data.given]\ntide = 'sin(20*t)'\nwind = 'cos(9*t)'\n";
  for (const NetworkInputs& inputs : {reading({}, {"wind", "tide"}), reading({}, {"tide"}, Frame::initial),
                                      reading({"psi3", "phi1"}, {"wind"}), reading({"psi3", "phi1"}, {})}) {
    make(driven, 5, LayerKind::mamba, 22, inputs);
    RolloutOptions beyond;  // the data, where formulas go on
    beyond.to = 0.3;
    const HeldClosure held{Hold::linear, Target::instant};
    EXPECT_LT(
        largest_relative_difference(roll(true, held, beyond).resolved, roll(false, held, beyond).resolved),
        1e-6)
        << inputs.state.size() << inputs.given.size();
  }
  make(driven, 5, LayerKind::mamba, 9, reading({}, {"wind"}));
  expect_to_go_on(5, 6);
}

TEST_F(CudaRollout, HasTheEquationsOfEachTrajectoryWhereParametersVary) {
  const HeldClosure held{Hold::linear, Target::instant};
  const std::string varied[] = {
      "name = 'burgers'\ngrid = 32\nviscosity = { list = [0.06, 0.17] }\n[data]\ndt = 1e-3\nstride = 10\n",
      "name = 'lorenz96'\nJ = 4\nwarmup_steps = 50\nF = { list = [8, 10] }\n[data]\ndt = 5e-3\nstride = "
      "2\n"};
  for (const std::string& system : varied) {
    const std::string parameter = &system == varied ? "viscosity" : "F";
    make(system, 6, LayerKind::gru, 22, reading({}, {parameter}));
    EXPECT_LT(largest_relative_difference(roll(true, held).resolved, roll(false, held).resolved), 1e-6)
        << parameter;
  }
}

TEST_F(CudaRollout, OfEnsemblesFollowsTheCpu) {
  const HeldClosure held{Hold::linear, Target::instant};
  const auto ensemble_of = [this](std::size_t members) {
    std::vector<Model> networks(members, model_);
    for (std::size_t m = 0; m < members; ++m)
      networks[m].parameters = initial_parameters(model_.shape, m + 1);
    return make_ensemble(networks, std::vector<std::string>(members, "network"));
  };
  // Groups of 1, 4 and 12 trajectories, and the kernel for the paper's sizes.
  for (const auto& [trajectories, kind, blocks] :
       {std::tuple(5u, LayerKind::mamba, 2u), std::tuple(700u, LayerKind::gru, 2u),
        std::tuple(1500u, LayerKind::mamba, 4u), std::tuple(7u, LayerKind::mamba, 4u)}) {
    make(burgers, trajectories, kind, 22, reading({}, {}, blocks == 4 ? Frame::initial : Frame::none));
    if (blocks == 4) model_.shape.n_blocks = 4, model_.shape.d_state = 12;
    model_ = ensemble_of(3);
    const RolloutSplit cpu = roll(false, held), cuda = roll(true, held);
    EXPECT_LT(largest_relative_difference(cuda.resolved, cpu.resolved), 1e-6) << trajectories;
    EXPECT_LT(largest_relative_difference(cuda.closure, cpu.closure), 5e-6) << trajectories;
    EXPECT_LT(largest_relative_difference(cuda.memory, cpu.memory), 5e-6) << trajectories;
  }
  make(lorenz, 9, LayerKind::mamba, 120);  // weights that do not fit shared memory
  model_ = ensemble_of(2);
  EXPECT_LT(largest_relative_difference(roll(true, held).resolved, roll(false, held).resolved), 1e-6);
  make(burgers, 5, LayerKind::mamba, 9);
  model_ = ensemble_of(4);
  expect_to_go_on(5, 6);
  RolloutOptions apart;
  apart.members = 4;
  try {
    roll(true, held, apart);
    FAIL() << "members were run apart";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("leave out --members"), std::string::npos) << error.what();
  }
}

TEST_F(CudaRollout, TakesNetworksWhoseWeightsDoNotFitSharedMemory) {
  make(lorenz, 700, LayerKind::mamba, 120);
  const HeldClosure held{Hold::zero, Target::instant};
  EXPECT_LT(largest_relative_difference(roll(true, held).resolved, roll(false, held).resolved), 1e-6);
}

TEST_F(CudaRollout, GoesOnToTheLastBit) {
  make(burgers, 5, LayerKind::mamba, 9);
  expect_to_go_on(5, 6);
}

TEST_F(CudaRollout, FollowsTheCpuInFrames) {
  const NetworkInputs framed = reading({}, {}, Frame::initial);
  for (const std::string& system : {burgers, five_modes}) {
    make(system, 5, LayerKind::mamba, 22, framed);
    const HeldClosure held{Hold::linear, Target::mean};
    RolloutOptions history;
    history.history = 0.05;
    for (const RolloutOptions& options : {RolloutOptions(), history}) {
      const RolloutSplit cpu = roll(false, held, options), cuda = roll(true, held, options);
      // As without frames; the angles, last of each memory, are the same numbers.
      EXPECT_LT(largest_relative_difference(cuda.resolved, cpu.resolved), 1e-6) << system;
      EXPECT_LT(largest_relative_difference(cuda.closure, cpu.closure), 5e-6) << system;
      EXPECT_LT(largest_relative_difference(cuda.memory, cpu.memory), 5e-6) << system;
      EXPECT_EQ(cuda.memory.back(), cpu.memory.back()) << system;
    }
  }
  make(burgers, 5, LayerKind::gru, 9, framed);
  const HeldClosure held{Hold::linear, Target::instant};
  const RolloutSplit whole = roll(false, held);
  RolloutOptions half, rest;  // taken up on the device from the CPU's file
  half.to = 0.1;
  roll(false, held, half, "half.h5");
  rest.from = folder_.file("half.h5");
  const RolloutSplit second = roll(true, held, rest, "rest.h5");
  const std::size_t row = 6, later = second.time.size(), times = whole.time.size();
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t k = 0; k < later * row; ++k)
      ASSERT_NEAR(second.resolved[i * later * row + k], whole.resolved[((i + 1) * times - later) * row + k],
                  1e-6);
}

TEST_F(CudaRollout, ReadsTheTruePastAndReportsBlowUps) {
  make(burgers, 5, LayerKind::gru, 9);
  const HeldClosure held{Hold::zero, Target::instant};
  RolloutOptions history;
  history.history = 0.1;
  EXPECT_LT(
      largest_relative_difference(roll(true, held, history).resolved, roll(false, held, history).resolved),
      1e-6);
  for (double& scale : model_.normalisation.output_scale) scale = 1e9;
  const RolloutSplit cpu = roll(false, held), cuda = roll(true, held);
  EXPECT_EQ(cuda.blow_up_time, cpu.blow_up_time);
  EXPECT_FALSE(std::isnan(cpu.blow_up_time[0]));
  EXPECT_TRUE(std::isnan(cuda.resolved.back()));
}

}  // namespace
}  // namespace mac::test
