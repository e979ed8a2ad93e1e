// Whole trainings on the device: as the CPU's, the same bytes however they are run, several seeds at once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <mac/cuda.hpp>
#include <mac/run.hpp>
#include <sstream>
#include <thread>

#include "cuda/written_systems.hpp"
#include "support/process.hpp"
#include "training/small_training.hpp"

namespace mac::test {
namespace {

namespace fs = std::filesystem;

class CudaTrain : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
  }
  ScratchFolder folder;
};

const std::string adamw = "optimiser = 'adamw'\n", soap = "optimiser = 'soap'\n";

const TrainOptions on_cpu{1, true, false, Device::cpu}, on_cuda{1, true, false, Device::cuda};

/// The numbers of a column of a history file.
std::vector<double> column(const std::string& path, std::size_t index) {
  std::vector<double> values;
  std::istringstream text(read_bytes(path));
  std::string line;
  std::getline(text, line);  // names
  while (std::getline(text, line)) {
    std::istringstream fields(line);
    std::string field;
    for (std::size_t i = 0; i <= index; ++i) std::getline(fields, field, ',');
    values.push_back(field.empty() ? NAN : std::stod(field));
  }
  return values;
}

class CudaHistory : public CudaTrain {
 protected:
  /// Largest relative differences of the losses, gradient norms and validations of 30 steps.
  struct Bounds {
    double loss, norm, validation;
  };
  /// Directions that no gradient has had yet come from rounding (FollowsTheCpuFor200Steps). Between float32 and float64 on
  /// the CPU losses of such trainings differ by up to 0.4 %, gradient norms by 3 %.
  static constexpr Bounds as_soap{2e-2, 0.1, 2e-2};

  void expect_alike(const std::string& training, const Bounds& bounds,
                    const std::string& of_model = "") const {
    trained_bytes(training, folder.file("cpu.safetensors"), on_cpu, of_model);
    trained_bytes(training, folder.file("cuda.safetensors"), on_cuda, of_model);
    for (const auto& [index, bound] :
         {std::pair(1u, bounds.loss), std::pair(3u, bounds.norm), std::pair(4u, bounds.validation)}) {
      const auto cpu = column(folder.file("cpu.history.csv"), index),
                 cuda = column(folder.file("cuda.history.csv"), index);
      ASSERT_EQ(cpu.size(), 30u);
      ASSERT_EQ(cuda.size(), 30u);
      for (std::size_t i = 0; i < cpu.size(); ++i) {
        if (std::isnan(cpu[i])) continue;
        EXPECT_NEAR(cuda[i] / cpu[i], 1, bound) << training << " column " << index << " step " << i + 1;
      }
    }
  }
};

TEST_F(CudaHistory, FollowsTheCpuWithEveryLoss) {
  const std::string variants[] = {
      "",  // but for the optimiser the fast recipe: relative errors, augmentation, clip
      "loss_weights = 'none'\nnormalisation = 'max_abs'\n",
      "loss_weights = 'effect'\nnoise_from = 0.0\nnoise_to = 1.0\n",
      "target = 'mean'\nwindow = 9\n",
      "horizon = 0.6\naugmentation = false\nclip = 0\nselect = 'loss'\n",
      "loss = 'step'\nloss_weights = 'none'\n",
      "loss = 'rollout'\nrollout_steps = 3\nselect = 'loss'\n",
      "loss = 'rollout'\nrollout_steps = 3\nrollout_form = 'autoregressive'\n",
      "loss = 'rollout'\nrollout_steps = 3\nselect = 'loss'\nloss_weights = 'none'\n",
      "loss = 'rollout'\nrollout_steps = 3\nrollout_form = 'autoregressive'\nhold = 'zero'\nloss_weights = "
      "'none'\n",
  };
  // Rounding of 1e-7 a step, amplified by Adam where second moments are small, over 30 steps.
  for (const std::string& variant : variants) expect_alike(adamw + variant, {2e-3, 2e-3, 2e-3});
}

TEST_F(CudaHistory, FollowsTheCpuInFrames) {
  const std::string variants[] = {
      "",
      "augmentation = false\nnoise_from = 0.0\nnoise_to = 1.0\n",
      "target = 'mean'\nwindow = 9\nloss_weights = 'none'\n",  // frames of states within trajectories
      "memory = 0\n",                                          // the same from the file
      "select = 'loss'\n",
      "loss = 'rollout'\nrollout_steps = 3\nwindow = 9\n",
      "loss = 'rollout'\nrollout_steps = 3\nrollout_form = 'autoregressive'\nnoise_from = 0.0\n",
  };
  for (const std::string& variant : variants)  // bounds as without frames
    expect_alike(adamw + variant, {2e-3, 2e-3, 2e-3}, "frame = 'initial'\n");
}

// Losses that the device does not know run on the host around its network.
TEST_F(CudaHistory, FollowsTheCpuWithProductsForInputs) {
  for (const std::string loss : {"", "loss = 'rollout'\nrollout_steps = 3\n"})
    expect_alike(adamw + "augmentation = false\n" + loss, {2e-3, 2e-3, 2e-3},
                 "inputs = { state = ['phi1', 'phi2', 'phi3', 'psi1 - phi1', 'psi2', 'psi3*phi1'] }\n");
}

TEST_F(CudaHistory, FollowsTheCpuWithSoap) {
  for (const std::string variant :
       {"", "clip = 0\nloss_weights = 'none'\n", "loss = 'rollout'\nrollout_steps = 3\n"})
    expect_alike(soap + variant, as_soap);
  expect_alike(
      "[[training.stages]]\nsteps = 12\noptimiser = 'adamw'\n[[training.stages]]\nsteps = 18\noptimiser = "
      "'soap'\n",
      as_soap);
}

TEST_F(CudaHistory, FollowsTheCpuInFloat64) {
  const std::string precise = "precision = 'float64'\n", lbfgs = "optimiser = 'lbfgs'\nmax_lr = 0.01\n";
  const std::string variants[] = {
      adamw, lbfgs, adamw + "loss = 'rollout'\nrollout_steps = 3\n",
      lbfgs + "loss = 'rollout'\nrollout_steps = 3\nrollout_form = 'autoregressive'\n"};
  // Nine digits are written. Rounding of 1e-15 a step is amplified as that of float32 is (above), by some 1e4.
  for (const std::string& variant : variants) expect_alike(precise + variant, {1e-8, 1e-8, 1e-8});
  expect_alike(precise + soap, as_soap);
  EXPECT_EQ(trained_bytes(precise + lbfgs, folder.file("once.safetensors"), on_cuda),
            trained_bytes(precise + lbfgs, folder.file("again.safetensors"), on_cuda));
}

/// Losses and gradient norms of five steps on the CPU and on the device.
void expect_same_descent(const std::string& text, const ScratchFolder& folder) {
  const Experiment experiment = Experiment::parse(text, "rollouts.toml");
  generate(experiment, folder.file("data.h5"), {1, true});
  const DataFile data = DataFile::open(folder.file("data.h5"));
  for (const auto& [name, options] : {std::pair("cpu", on_cpu), std::pair("cuda", on_cuda)})
    train(experiment, experiment.models.at(0), data, folder.file(std::string(name) + ".safetensors"),
          options);
  for (const std::size_t index : {1, 3}) {  // loss, gradient norm
    const auto cpu = column(folder.file("cpu.history.csv"), index),
               cuda = column(folder.file("cuda.history.csv"), index);
    ASSERT_EQ(cpu.size(), 5u);
    ASSERT_EQ(cuda.size(), 5u);
    // Rounding of 1e-7 through a few coupled steps, and through Adam after the first.
    for (std::size_t i = 0; i < cpu.size(); ++i)
      EXPECT_NEAR(cuda[i] / cpu[i], 1, i == 0 ? 1e-5 : 1e-3) << text << " step " << i + 1;
  }
}

TEST_F(CudaTrain, FollowsTheCpuThroughAutoregressiveRolloutsOfEveryNetwork) {
  // Compiled for its sizes; of any size; too large for shared memory; and enough chains for groups of four, or for the
  // general path.
  const std::string burgers = "name = 'burgers'\ngrid = 32\n[data]\ndt = 1e-3\nstride = 10\n",
                    lorenz = "name = 'lorenz96'\nJ = 4\nwarmup_steps = 50\n[data]\ndt = 5e-3\nstride = 2\n";
  const std::string networks[] = {"kind = 'mamba'\nd_model = 22\nd_state = 12\nblocks = 4\n",
                                  "kind = 'mamba'\nd_model = 9\nd_state = 5\nblocks = 2\n",
                                  "kind = 'mamba'\nd_model = 63\nd_state = 16\nblocks = 3\n",
                                  "kind = 'gru'\nd_model = 28\nblocks = 4\n",
                                  "kind = 'gru'\nd_model = 62\nblocks = 4\n"};
  for (const std::string& network : networks)
    for (const auto& [window, steps, batch] :
         {std::tuple(13, 12, 3), std::tuple(41, 4, 16), std::tuple(41, 4, 120)})
      expect_same_descent(
          fmt::format("[system]\n{}[data.train]\ntrajectories = 3\nhorizon = 0.4\n"
                      "[[models]]\nname = 'mac'\n{}[training]\noptimiser = 'adamw'\nselect = 'last'\n"
                      "loss = 'rollout'\nrollout_form = 'autoregressive'\nsteps = 5\n"
                      "window = {}\nrollout_steps = {}\nbatch = {}\n",
                      network.find("63") == std::string::npos ? burgers : lorenz, network, window, steps,
                      batch),
          folder);
}

TEST_F(CudaTrain, FollowsTheCpuWithNetworksOfTheGeneralPath) {
  const std::string losses[] = {"loss = 'closure'\n", "loss = 'rollout'\nrollout_steps = 4\n",
                                "loss = 'rollout'\nrollout_steps = 4\nrollout_form = 'autoregressive'\n"};
  const std::string networks[] = {
      "kind = 'mamba'\nd_model = 33\nd_state = 20\nblocks = 2\n", "kind = 'gru'\nd_model = 70\nblocks = 2\n",
      "kind = 'oscillator'\nd_model = 9\nd_state = 3\nblocks = 2\n",
      "kind = 'lstm'\nd_model = 9\nblocks = 2\n", "kind = 'mlp'\nd_model = 12\nblocks = 2\n"};
  for (const std::string& network : networks)
    for (const std::string& loss : losses)
      expect_same_descent(
          fmt::format(
              "[system]\nname = 'burgers'\ngrid = 32\n[data]\ndt = 1e-3\nstride = 10\n"
              "[data.train]\ntrajectories = 3\nhorizon = 0.4\n[[models]]\nname = 'mac'\n{}"
              "[training]\noptimiser = 'adamw'\nselect = 'last'\nsteps = 5\nwindow = 13\nbatch = 3\n{}",
              network, loss),
          folder);
}

TEST_F(CudaTrain, FollowsTheCpuThroughRolloutsOfEverySystem) {
  const std::string lorenz = "name = 'lorenz96'\nJ = 4\nwarmup_steps = 50\n[data]\ndt = 5e-3\nstride = 2\n",
                    grid = "name = 'power_grid'\n[data]\ndt = 2e-4\nstride = 50\n",
                    burgers = "name = 'burgers'\ngrid = 32\n[data]\ndt = 1e-3\nstride = 10\n",
                    five_modes = "name = 'kdv'\nmodes = 5\ngrid = 32\n[data]\ndt = 5e-3\nstride = 2\n";
  const std::string rest = R"(
[data.train]
trajectories = 3
horizon = 0.4
[[models]]
name = "mac"
kind = "gru"
d_model = 6
blocks = 2
[training]
optimiser = "adamw"
select = "last"
loss = "rollout"
rollout_steps = 4
window = 13
batch = 3
steps = 5
noise = 1e-3
noise_from = 0
)";
  std::vector<std::string> systems{lorenz, grid, burgers, five_modes};
  systems.insert(systems.end(), written_systems.begin(), written_systems.end());
  for (const std::string& system : systems)
    for (const std::string hold : {"zero", "linear"})
      for (const auto& [form, weights] :
           {std::pair("sequence", "none"), std::pair("sequence", "relative"),
            std::pair("autoregressive", "none"), std::pair("autoregressive", "relative")}) {
        expect_same_descent(
            fmt::format(
                "[system]\n{}{}rollout_form = '{}'\nhold = '{}'\ntarget = '{}'\nloss_weights = '{}'\n",
                system, rest, form, hold, hold == "zero" ? "instant" : "mean", weights),
            folder);
      }
}

TEST_F(CudaTrain, FollowsTheCpuWithWhatIsGivenFromOutside) {
  const std::string given = "[data.given]\ntide = 'sin(20*t)'\nwind = 'cos(9*t)'\n",
                    burgers = "name = 'burgers'\ngrid = 32\n[data]\ndt = 1e-3\nstride = 10\n" + given,
                    lorenz = "name = 'lorenz96'\nJ = 4\nwarmup_steps = 50\n[data]\ndt = 5e-3\nstride = 2\n" +
                             given;
  const std::string varied =
      "name = 'burgers'\ngrid = 32\nviscosity = { list = [0.06, 0.1, 0.17] }\n[data]\ndt = 1e-3\nstride = "
      "10\n";
  struct Case {
    std::string system, inputs, training;
  };
  const std::string rollout = "loss = 'rollout'\nrollout_steps = 4\n",
                    autoregressive = rollout + "rollout_form = 'autoregressive'\n",
                    noisy = "noise = 1e-3\nnoise_from = 0\n", one = "inputs = { given = ['wind'] }\n";
  for (const auto& [system, inputs, training] :
       {Case{burgers, "", noisy}, Case{burgers, one, "memory = 0\n"},
        Case{lorenz, "", "loss_weights = 'relative'\n"}, Case{burgers, "inputs = { given = [] }\n", ""},
        Case{burgers, one + "frame = 'initial'\n", noisy}, Case{burgers, "", rollout + noisy},
        Case{lorenz, one, rollout + "hold = 'linear'\ntarget = 'mean'\n"},
        Case{lorenz, "", autoregressive + noisy}, Case{varied, "", ""}, Case{varied, "", rollout},
        Case{burgers, one + "frame = 'initial'\n",
             autoregressive + "loss_weights = 'relative'\nhold = 'linear'\n"}})
    expect_same_descent(
        "[system]\n" + system +
            "[data.train]\ntrajectories = 3\nhorizon = 0.4\n[[models]]\nname = 'mac'\nkind = 'mamba'\n"
            "d_model = 9\nd_state = 5\nblocks = 2\n" +
            inputs + "[training]\noptimiser = 'adamw'\nselect = 'last'\nwindow = 13\nbatch = 3\nsteps = 5\n" +
            training,
        folder);
}

TEST_F(CudaTrain, GivesTheSameBytesAgainAndWhenTheDataStayInTheFile) {
  for (const std::string& optimiser : {adamw, soap}) {
    const std::string first = trained_bytes(optimiser, folder.file("first.safetensors"), on_cuda);
    EXPECT_EQ(first, trained_bytes(optimiser, folder.file("second.safetensors"), on_cuda));
    EXPECT_EQ(read_bytes(folder.file("first.history.csv")), read_bytes(folder.file("second.history.csv")));
    trained_bytes(optimiser + "memory = 0\n", folder.file("streamed.safetensors"), on_cuda);
    EXPECT_EQ(load_model(folder.file("first.safetensors")).parameters,
              load_model(folder.file("streamed.safetensors")).parameters);
  }
}

TEST_F(CudaTrain, OfSeveralSeedsGivesTheBytesOfEachAlone) {
  const std::string rollout = "loss = 'rollout'\nrollout_steps = 3\n",
                    autoregressive = "rollout_form = 'autoregressive'\n",
                    few_starts = "window = 8\n";  // five, which fused kernels read one after the other
  for (const std::string& training :
       {adamw, adamw + rollout, adamw + rollout + "loss_weights = 'none'\n", adamw + "memory = 0\n", soap,
        soap + rollout, soap + rollout + autoregressive, adamw + rollout + autoregressive + few_starts,
        adamw + "precision = 'float64'\n"}) {
    const Experiment experiment = Experiment::parse(small_experiment(training), "small.toml");
    const DataFile data = DataFile::open(small_data());
    const std::vector<std::uint64_t> seeds{3, 4, 5};
    std::vector<std::string> paths;
    for (const std::uint64_t seed : seeds) paths.push_back(folder.file(fmt::format("m{}.safetensors", seed)));
    train_seeds(experiment, experiment.models.at(0), seeds, data, paths, on_cuda);
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      ModelPlan plan = experiment.models.at(0);
      plan.network->training.seed = seeds[i];
      train(experiment, plan, data, folder.file("alone.safetensors"), on_cuda);
      EXPECT_EQ(read_bytes(paths[i]), read_bytes(folder.file("alone.safetensors"))) << training << seeds[i];
      EXPECT_EQ(read_bytes(folder.file(fmt::format("m{}.history.csv", seeds[i]))),
                read_bytes(folder.file("alone.history.csv")));
    }
  }
}

TEST_F(CudaTrain, OfAStudyTakesTheSeedsThatAreMissingAtOnce) {
  const Experiment experiment = Experiment::parse(
      small_experiment(adamw) + "[data.test]\ntrajectories = 2\nhorizon = 1\n", "small.toml");
  const auto run = [&](std::vector<std::uint64_t> seeds) {
    return run_study(
        experiment, folder.file("run"),
        {.threads = 1, .quiet = true, .device = Device::cuda, .seeds = std::move(seeds), .report = false});
  };
  EXPECT_EQ(run({0}).done, 6u) << "data, a model, three rollouts, metrics";
  EXPECT_EQ(run({0, 1, 2}).done, 5u) << "two models with their rollouts, metrics";
  EXPECT_EQ(run({0, 1, 2}).done, 0u);
  ModelPlan plan = experiment.models.at(0);
  plan.network->training.seed = 2;
  train(experiment, plan, DataFile::open(folder.file("run/data.h5")), folder.file("alone.safetensors"),
        on_cuda);
  EXPECT_EQ(read_bytes(folder.file("run/models/mac-seed2.safetensors")),
            read_bytes(folder.file("alone.safetensors")));
}

/// Trainings of some seconds that are stopped in between, with every optimiser.
class CudaResume : public CudaTrain, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    CudaTrain::SetUp();
    write_bytes(folder.file("small.toml"),
                small_experiment(GetParam() + "[models.training]\nsteps = 3000\ncheckpoint_every = 50\n"));
  }
  Process start(const std::string& output, const std::string& device, bool resume,
                const std::string& seeds) const {
    std::vector<std::string> arguments{"train",   folder.file("small.toml"),
                                       "--data",  small_data(),
                                       "-o",      output,
                                       "--quiet", "--seeds",
                                       seeds,     "--device",
                                       device};
    if (resume) arguments.push_back("--resume");
    return Process(arguments);
  }
  /// Lets the training run past its first checkpoints, then sends the signal.
  void stop(const Process& process, const std::string& checkpoint, int signal) const {
    while (!fs::exists(checkpoint)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    process.send(signal);
    EXPECT_NE(process.wait(), 0);
  }
};

TEST_P(CudaResume, OfAllSeedsAfterAKillGivesTheSameBytes) {
  fs::create_directories(folder.file("whole")), fs::create_directories(folder.file("killed"));
  ASSERT_EQ(start(folder.file("whole/"), "cuda", false, "0:3").wait(), 0);
  stop(start(folder.file("killed/"), "cuda", false, "0:3"),
       folder.file("killed/mac-seed1.checkpoint.previous.safetensors"), SIGKILL);
  // One seed is further behind than the others: it catches up first.
  fs::rename(folder.file("killed/mac-seed1.checkpoint.previous.safetensors"),
             folder.file("killed/mac-seed1.checkpoint.safetensors"));
  ASSERT_EQ(start(folder.file("killed/"), "cuda", true, "0:3").wait(), 0);
  for (const char* file :
       {"mac-seed0.safetensors", "mac-seed1.safetensors", "mac-seed2.safetensors", "mac-seed1.history.csv"})
    EXPECT_EQ(read_bytes(folder.file(std::string("whole/") + file)),
              read_bytes(folder.file(std::string("killed/") + file)))
        << file;
}

TEST_P(CudaResume, TakesUpCheckpointsOfTheCpuAndTheOtherWayRound) {
  for (const auto& [from, to] : {std::pair("cpu", "cuda"), std::pair("cuda", "cpu")}) {
    const std::string path = folder.file(std::string(from) + ".safetensors");
    stop(start(path, from, false, "0:1"), folder.file(std::string(from) + ".checkpoint.safetensors"),
         SIGTERM);
    EXPECT_EQ(start(path, to, true, "0:1").wait(), 0);
  }
  const auto a = column(folder.file("cpu.history.csv"), 1), b = column(folder.file("cuda.history.csv"), 1);
  ASSERT_EQ(a.size(), b.size());
  EXPECT_NEAR(b[0] / a[0], 1, 1e-5);  // the same batch and weights, other rounding
  // Two trainings that differ by rounding end at the same level, not at the same numbers.
  const double a_error = column(folder.file("cpu.history.csv"), 4).back(),
               b_error = column(folder.file("cuda.history.csv"), 4).back();
  EXPECT_NEAR(b_error / a_error, 1, 0.2);
}

INSTANTIATE_TEST_SUITE_P(EveryOptimiser, CudaResume, testing::Values(adamw, soap),
                         [](const auto& tested) { return tested.param == adamw ? "adamw" : "soap"; });

}  // namespace
}  // namespace mac::test
