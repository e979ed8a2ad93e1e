// Baselines through the program: [[models]] entries, mac train, mac rollout.
#include <gtest/gtest.h>

#include <mac/error.hpp>
#include <mac/experiment.hpp>

#include "experiment/baseline_kinds.hpp"
#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

using test::run_program;
using test::ScratchFolder;

const std::string burgers = R"(
[system]
name = "burgers"
grid = 64
[data]
dt = 1e-3
stride = 10
[data.train]
trajectories = 2
horizon = 0.3
[data.test]
trajectories = 3
horizon = 0.2
[[models]]
name = "linear"
kind = "linear_memory"
[[models]]
name = "cubic"
kind = "cubic_memory"
quadrature = 2
horizon = 0.1
)";

std::string complaint(const std::string& text) {
  try {
    Experiment::parse(text, "study.toml");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(BaselinePlan, CoversTheSplitsThatAreRolledOut) {
  const Experiment experiment = Experiment::parse(burgers, "study.toml");
  ASSERT_TRUE(experiment.models.at(0).baseline);
  EXPECT_EQ(experiment.models[0].baseline->reach(), 0.2);
  EXPECT_EQ(experiment.models[1].baseline->reach(), 0.1);
}

TEST(BaselinePlan, IsOfAKindInTheRegistry) {
  std::string names;
  for (const BaselineKind& kind : baseline_kinds()) names += ", " + kind.name;
  EXPECT_EQ(names, ", wilks, polynomial, linear_memory, cubic_memory, regression");
  const std::string head = burgers.substr(0, burgers.find("[[models]]"));
  EXPECT_NE(complaint(head + "[[models]]\nkind = 'wilk'\n").find(names + "; did you mean \"wilks\""),
            std::string::npos)
      << complaint(head + "[[models]]\nkind = 'wilk'\n");
}

TEST(BaselinePlan, IsRefusedWhereItMakesNoSense) {
  const std::string head = burgers.substr(0, burgers.find("[[models]]"));
  EXPECT_NE(complaint(head + "[[models]]\nkind = 'wilks'\n").find("ring"), std::string::npos);
  EXPECT_NE(complaint(head + "[[models]]\nkind = 'linear_memory'\nquadrature = 40\n").find("trajectories"),
            std::string::npos);
  EXPECT_NE(complaint(head + "[[models]]\nkind = 'linear_memory'\nseed = 4\n").find("seed"),
            std::string::npos);
  EXPECT_NE(
      complaint(
          "[system]\nname = 'lorenz96'\n[data]\ndt = 0.005\n[data.test]\ntrajectories = 1\nhorizon = 1\n"
          "[[models]]\nkind = 'polynomial'\n")
          .find("data.train"),
      std::string::npos);
  EXPECT_NE(
      complaint(
          "[system]\nname = 'lorenz96'\n[data]\ndt = 0.005\n[data.test]\ntrajectories = 1\nhorizon = 1\n"
          "[[models]]\nkind = 'cubic_memory'\n")
          .find("Fourier"),
      std::string::npos);
  // Modes as text are not kept as the kernels take them.
  const std::string text = test::read_bytes(std::string(MAC_EXPERIMENTS) + "/equations/burgers.toml");
  EXPECT_NE(complaint(text + "[[models]]\nkind = 'linear_memory'\n").find("not for burgers_text"),
            std::string::npos);
}

TEST(BaselineCommands, TrainAndRollOutMemoryModels) {
  const ScratchFolder folder;
  const std::string study = folder.file("study.toml"), data = folder.file("data.h5");
  test::write_bytes(study, burgers);
  ASSERT_EQ(run_program("generate --quiet " + study + " -o " + data).exit_code, 0);
  const auto trained =
      run_program("train --quiet " + study + " --data " + data + " -o " + folder.file("models/"));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const std::string linear = folder.file("models/linear.h5"), cubic = folder.file("models/cubic.h5");
  const auto rolled =
      run_program("rollout --quiet " + linear + " --data " + data + " -o " + folder.file("out.h5"));
  EXPECT_EQ(rolled.exit_code, 0) << rolled.output;
  const auto evaluated = run_program("evaluate " + folder.file("out.h5"));
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.output;
  EXPECT_NE(evaluated.output.find("linear"), std::string::npos) << evaluated.output;

  // The cubic kernel ends before the data; the rollout may end there, not later.
  const auto late =
      run_program("rollout --quiet " + cubic + " --data " + data + " -o " + folder.file("late.h5"));
  EXPECT_EQ(late.exit_code, 2) << late.output;
  EXPECT_NE(late.output.find("horizon"), std::string::npos) << late.output;
  EXPECT_FALSE(std::filesystem::exists(folder.file("late.h5")));
  const auto in_time = run_program("rollout --quiet " + cubic + " --data " + data + " --to 0.1 -o " +
                                   folder.file("in_time.h5"));
  EXPECT_EQ(in_time.exit_code, 0) << in_time.output;

  const auto held = run_program("rollout --quiet " + linear + " --hold linear --data " + data + " -o " +
                                folder.file("held.h5"));
  EXPECT_EQ(held.exit_code, 2) << held.output;
}

}  // namespace
}  // namespace mac
