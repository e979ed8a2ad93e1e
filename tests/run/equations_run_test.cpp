// A study of a system that is text: every command, by the program itself.
#include <gtest/gtest.h>

#include <mac/rollout.hpp>

#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

const std::string study = R"toml([system]
kind = "equations"
name = "forced_ring"
parameters = { N = 4, a = 0.5 }
resolved = ["x[i], i = 1..N, cyclic"]
hidden = ["q[i], i = 1..N, cyclic"]
equations = """
dx[i] = -x[i]^3 + tanh(x[i+1]) - x[i] + q[i] + sin(2*pi*t)
dq[i] = x[i-1] - 2*q[i]
"""
initial = { x = "normal(0, 1)", q = "x[i]/2" }
period = 1
diagnostics = { size = "sum(i, x[i]^2)" }
[data]
dt = 0.01
stride = 5
[data.train]
trajectories = 8
horizon = 1.0
[data.validation]
trajectories = 2
horizon = 1.0
[data.test]
trajectories = 3
horizon = 1.0
[[models]]
name = "mac"
kind = "gru"
d_model = 3
blocks = 1
[[models]]
name = "delayed"
kind = "regression"
delays = 3
[[models]]
name = "noisy"
kind = "regression"
degree = 1
noise = true
[training]
recipe = "fast"
batch = 4
steps = 4
validate_every = 2
[[training.stages]]
steps = 4
[[training.stages]]
loss = "rollout"
rollout_steps = 3
steps = 4
)toml";

class EquationsRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new test::ScratchFolder;
    test::write_bytes(folder->file("study.toml"), study);
    run = test::run_program("run " + folder->file("study.toml") + " -o " + folder->file("run") +
                            " --threads 2 --quiet");
  }
  static void TearDownTestSuite() { delete folder; }
  static void expect_success(const std::string& arguments) {
    const auto result = test::run_program(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.output;
  }
  static std::string file(const std::string& name) { return folder->file("run/" + name); }
  static inline test::ScratchFolder* folder = nullptr;
  static inline test::ProgramResult run{};
};

TEST_F(EquationsRun, GoesFromTextToReport) {
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("report.html"), std::string::npos);
  EXPECT_NE(run.output.find("forced_ring"), std::string::npos);
}

TEST_F(EquationsRun, LeavesFilesThatNeedNothingElse) {
  const std::string model = file("models/mac-seed0.safetensors"), data = file("data.h5");
  std::filesystem::remove(folder->file("study.toml"));
  std::filesystem::rename(file("experiment.toml"), file("kept.toml"));
  expect_success("rollout " + model + " --data " + data + " -o " + folder->file("a.h5") + " --quiet");
  expect_success("rollout markov --data " + data + " -o " + folder->file("b.h5") + " --quiet");
  expect_success("evaluate " + folder->file("a.h5") + " " + folder->file("b.h5"));
  expect_success("predict " + model + " --input " + data + " -o " + folder->file("p.h5") + " --quiet");
  expect_success("diagnose memory " + model + " --data " + data + " --split test");
  expect_success("report " + folder->file("run") + " -o " + folder->file("again.html"));
  std::filesystem::rename(file("kept.toml"), file("experiment.toml"));
}

TEST_F(EquationsRun, HasBaselinesForAnySystem) {
  EXPECT_NE(run.output.find("delayed"), std::string::npos) << run.output;
  const std::string model = file("models/delayed.h5"), noisy = file("models/noisy.h5");
  // A rollout in two parts is the rollout in one, delays and noise included.
  for (const std::string& path : {model, noisy}) {
    const std::string roll = "rollout " + path + " --data " + file("data.h5") + " --quiet -o ";
    expect_success(roll + folder->file("whole.h5"));
    expect_success(roll + folder->file("half.h5") + " --to 0.5");
    expect_success(roll + folder->file("rest.h5") + " --from " + folder->file("half.h5"));
    const RolloutSplit whole = RolloutFile::open(folder->file("whole.h5")).splits.front(),
                       rest = RolloutFile::open(folder->file("rest.h5")).splits.front();
    ASSERT_GT(whole.time.size(), rest.time.size());
    const std::size_t d = 6;
    for (std::size_t i = 0; i < whole.trajectories(); ++i)
      for (std::size_t v = 0; v < d; ++v)
        EXPECT_EQ(whole.resolved[((i + 1) * whole.time.size() - 1) * d + v],
                  rest.resolved[((i + 1) * rest.time.size() - 1) * d + v]);
  }
  std::string many = test::read_bytes(file("experiment.toml"));
  many.replace(many.find("delays = 3"), 10, "delays = 900");
  test::write_bytes(folder->file("many.toml"), many);
  const auto refused =
      test::run_program("generate " + folder->file("many.toml") + " -o " + folder->file("m.h5"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.output.find("expected at most 1500"), std::string::npos) << refused.output;
}

TEST_F(EquationsRun, IsDiagnosed) {
  const auto result = test::run_program("diagnose " + file("experiment.toml"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("size"), std::string::npos);
}

TEST_F(EquationsRun, GivesTheSameBytesForAnyNumberOfThreads) {
  expect_success("generate " + file("experiment.toml") + " -o " + folder->file("one.h5") +
                 " --threads 1 --quiet");
  expect_success("generate " + file("experiment.toml") + " -o " + folder->file("two.h5") +
                 " --threads 3 --quiet");
  EXPECT_EQ(test::read_bytes(folder->file("one.h5")), test::read_bytes(folder->file("two.h5")));
}

TEST_F(EquationsRun, RefusesAModelOfOtherEquations) {
  std::string other = test::read_bytes(file("experiment.toml"));
  other.replace(other.find("- 2*q[i]"), 8, "- 3*q[i]");
  test::write_bytes(folder->file("other.toml"), other);
  expect_success("generate " + folder->file("other.toml") + " -o " + folder->file("other.h5") + " --quiet");
  const auto result = test::run_program("rollout " + file("models/mac-seed0.safetensors") + " --data " +
                                        folder->file("other.h5") + " -o " + folder->file("c.h5"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("was trained with equations ="), std::string::npos) << result.output;
}

TEST(Equations, ThatAreWrongEndWithExitCodeTwoAndACaret) {
  const test::ScratchFolder folder;
  std::string text = study;
  text.replace(text.find("tanh("), 5, "tanhh(");
  test::write_bytes(folder.file("wrong.toml"), text);
  const auto result =
      test::run_program("generate " + folder.file("wrong.toml") + " -o " + folder.file("d.h5"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("there is no function tanhh; did you mean \"tanh\"?\n"
                               "    dx[i] = -x[i]^3 + tanhh(x[i+1]) - x[i] + q[i] + sin(2*pi*t)\n"
                               "                      ^"),
            std::string::npos)
      << result.output;
}

}  // namespace
}  // namespace mac
