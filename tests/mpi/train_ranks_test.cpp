// Training shared among ranks: the bytes of one process for any number of ranks, of every loss; killed and resumed on
// another number. Most of it with threads as ranks, which start in no time.
#include <gtest/gtest.h>

#include <filesystem>
#include <mac/data.hpp>
#include <mac/progress.hpp>
#include <mac/training.hpp>

#include "mpi/program.hpp"
#include "support/thread_ranks.hpp"
#include "training/batch_share.hpp"

namespace mac::test {
namespace {

struct TrainCase {
  const char* name;
  const char* model;     // of [[models]]
  const char* training;  // of [training]
  std::string study = small_study;
};

const std::string ring = R"([system]
name = "lorenz96"
N = 5
J = 4
warmup_steps = 200
[data]
dt = 0.005
stride = 2
[data.train]
trajectories = 6
horizon = 0.3
[data.validation]
trajectories = 3
horizon = 0.3
)";

const TrainCase train_cases[]{
    {"ClosureOfMamba", "kind = \"mamba\"\nd_state = 2\n", "batch = 40\nwindow = 12\nnoise = 0.01\n"},
    {"ClosureOfGruInManyGroups", "kind = \"gru\"\n", "batch = 150\nwindow = 5\nprecision = \"float64\"\n"},
    {"ClosureRelative", "kind = \"mamba\"\nd_state = 2\n",
     "batch = 33\nwindow = 6\nloss_weights = \"relative\"\n"},
    {"RolloutInSequence", "kind = \"gru\"\n",
     "batch = 36\nwindow = 6\nloss = \"rollout\"\nrollout_form = \"sequence\"\nrollout_steps = 2\n"},
    {"RolloutOfMambaFromItself", "kind = \"mamba\"\nd_state = 2\n",
     "batch = 64\nwindow = 5\nloss = \"rollout\"\nrollout_form = \"autoregressive\"\nrollout_steps = 3\n"},
    {"RolloutThatCannotBeShared", "kind = \"gru\"\n",
     "batch = 7\nwindow = 5\nloss = \"rollout\"\nrollout_form = \"autoregressive\"\nrollout_steps = 2\n"},
    {"DataInTheFile", "kind = \"gru\"\n", "batch = 40\nwindow = 5\nnoise = 0.01\nmemory = 0\n"},
    {"OneBatchOfLbfgs", "kind = \"gru\"\n",
     "batch = 40\nwindow = 5\noptimiser = \"lbfgs\"\nprecision = \"float64\"\naveraging = 0\n"},
    // Five sites and three members lie across groups of 4, 8 or 16 sequences; two and four do not.
    {"ClosureOfSites", "kind = \"mamba\"\nd_state = 2\nlocal = {stencil = [-1, 1], of = \"X\"}\n",
     "batch = 20\nwindow = 6\nselect = \"loss\"\nnoise = 0.02\n", ring},
    {"ClosureOfSomeSites", "kind = \"gru\"\nlocal = {stencil = [-1, 1], of = \"X\"}\n",
     "batch = 21\nwindow = 6\nsites = 2\n", ring},
    {"RolloutOfSites", "kind = \"gru\"\nlocal = {stencil = [-1, 1], of = \"X\"}\n",
     "batch = 14\nwindow = 6\nloss = \"rollout\"\nrollout_form = \"sequence\"\nrollout_steps = 2\nnoise = "
     "0.02\n",
     ring},
    {"ScoreInSequence", "kind = \"gru\"\nnoise_channels = 2\nnoise_time = 0.1\n",
     "batch = 14\nwindow = 6\nloss = \"crps\"\nmembers = 3\nrollout_form = \"sequence\"\nrollout_steps = 2\n",
     ring},
    {"ScoreFromItself", "kind = \"gru\"\nnoise_channels = 2\nnoise_time = 0.1\n",
     "batch = 16\nwindow = 5\nloss = \"energy\"\nmembers = 4\nrollout_form = "
     "\"autoregressive\"\nrollout_steps = 2\n",
     ring},
};

std::string experiment_of(const TrainCase& one,
                          const std::string& steps = "steps = 2\nvalidate_every = 1\n") {
  return one.study + "[[models]]\nname = \"net\"\nd_model = 3\nblocks = 1\n" + one.model +
         "[training]\nrecipe = \"fast\"\n" + steps + one.training;
}

class TrainOverRanks : public testing::TestWithParam<TrainCase> {};

TEST_P(TrainOverRanks, GivesTheBytesOfOneProcess) {
  const ScratchFolder folder;
  const Experiment experiment = Experiment::parse(experiment_of(GetParam()), "study.toml");
  generate(experiment, folder.file("data.h5"), {1, true});
  const auto model = [&](std::size_t ranks) { return folder.file(std::to_string(ranks) + ".safetensors"); };
  for (const std::size_t count : {1, 2, 3, 5}) {
    const auto failures = on_ranks(count, [&] {
      const DataFile data = DataFile::open(folder.file("data.h5"));
      train(experiment, experiment.models[0], data, model(count), {.threads = 1, .quiet = true});
    });
    for (const auto& failure : failures) EXPECT_EQ(message_of(failure), "");
    EXPECT_TRUE(read_bytes(model(count)) == read_bytes(model(1))) << count << " ranks";
    EXPECT_TRUE(read_bytes(TrainingFiles(model(count)).history) ==
                read_bytes(TrainingFiles(model(1)).history));
  }
}

INSTANTIATE_TEST_SUITE_P(Losses, TrainOverRanks, testing::ValuesIn(train_cases),
                         [](const auto& info) { return info.param.name; });

TEST(BatchShare, GivesEverySampleToOneRankAndEverySlotToOne) {
  for (const auto& [chains, sequences] :
       {std::pair<bool, std::size_t>{false, 1}, {true, 1}, {true, 4}, {false, 5}})
    for (const std::size_t samples : {1, 7, 16, 48, 64, 300, 512})
      for (const std::size_t count : {1, 2, 3, 5, 8, 40}) {
        std::vector<int> seen(samples), slots;
        std::mutex mutex;
        on_ranks(count, [&] {
          const BatchShare share({samples, samples, chains, sequences}, 8, ranks());
          const std::lock_guard lock(mutex);
          if (ranks().rank() >= share.parts()) return;
          for (const std::size_t sample : share.samples())
            if (!share.of_whole_batches() || ranks().root()) ++seen[sample];
          if (share.parts() == 1) return;
          const SlotPlan& plan = share.plan(share.samples().size() * sequences * (chains ? 3 : 1));
          slots.resize(plan.slots);
          for (const std::size_t slot : plan.mine) {
            ++slots[slot];
            EXPECT_EQ(plan.owner[slot], ranks().rank());
          }
        });
        EXPECT_EQ(seen, std::vector<int>(samples, 1)) << samples << " samples, " << count << " ranks";
        EXPECT_EQ(slots, std::vector<int>(slots.size(), 1)) << samples << " samples, " << count << " ranks";
      }
}

TEST(TrainOverRanks, ALossThatIsNotANumberEndsAllRanks) {
  const ScratchFolder folder;
  const Experiment experiment =
      Experiment::parse(experiment_of(train_cases[0], "steps = 20\nmax_lr = 1e30\n"), "study.toml");
  generate(experiment, folder.file("data.h5"), {1, true});
  const auto failures = on_ranks(3, [&] {
    const DataFile data = DataFile::open(folder.file("data.h5"));
    train(experiment, experiment.models[0], data, folder.file("m.safetensors"),
          {.threads = 1, .quiet = true});
  });
  for (const auto& failure : failures)
    EXPECT_NE(message_of(failure).find("went wrong at step"), std::string::npos) << message_of(failure);
  EXPECT_FALSE(std::filesystem::exists(folder.file("m.safetensors")));
}

TEST(MpiProgram, AKilledTrainingGoesOnWithAnotherNumberOfRanks) {
  const ScratchFolder folder;
  const std::string study =
      written(folder, "study.toml",
              experiment_of(train_cases[0], "steps = 800\nvalidate_every = 400\ncheckpoint_every = 20\n"));
  const std::string data = folder.file("data.h5"),
                    arguments = "train " + study + " --data " + data + " --quiet -o ";
  ASSERT_EQ(run_program("generate " + study + " -o " + data).exit_code, 0);
  ASSERT_EQ(run_program(arguments + folder.file("whole.safetensors")).exit_code, 0);
  const std::string model = folder.file("killed.safetensors");
  // When the first checkpoint is there, rank 1 dies.
  const ProgramResult killed =
      run_ranks(3, arguments + model,
                "if [ $RANK = 1 ]; then (while ! [ -e " + TrainingFiles(model).checkpoint +
                    " ]; do sleep 0.02; done; kill -9 $$) & fi");
  EXPECT_NE(killed.exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(model));
  ASSERT_TRUE(std::filesystem::exists(TrainingFiles(model).checkpoint)) << killed.output;
  const ProgramResult resumed = run_ranks(2, arguments + model + " --resume");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_TRUE(read_bytes(model) == read_bytes(folder.file("whole.safetensors")));
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"data.h5", "killed.history.csv", "killed.safetensors", "study.toml",
                                      "whole.history.csv", "whole.safetensors"}));
}

}  // namespace
}  // namespace mac::test
