// mac sweep: a run for each combination of values, kept where it is valid.
#include "run/sweep.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <mac/error.hpp>

#include "io/config_edit.hpp"
#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

using test::read_bytes;
using test::run_program;
using test::ScratchFolder;

const std::string study = R"([system]
name = "burgers"
grid = 32
[data]
dt = 1e-3
stride = 10
[data.train]
trajectories = 4
horizon = 0.1
[data.validation]
trajectories = 2
horizon = 0.1
[data.test]
trajectories = 2
horizon = 0.1
[[models]]
name = "mac"
kind = "gru"
d_model = 2
blocks = 1
[training]
recipe = "fast"
steps = 2
batch = 2
validate_every = 2
)";

SweepResult sweep_of(const ScratchFolder& folder, const std::vector<std::string>& over,
                     std::size_t random = 0) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : over) axes.push_back(sweep_axis(text));
  SweepOptions options;
  options.run.threads = 1;
  options.run.quiet = true;
  options.random = random;
  return sweep(Experiment::parse(study, "study.toml"), axes, folder.file("sweep"), options);
}

std::string refusal(const auto& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no refusal";
}

TEST(Sweep, RunsEveryCombinationAndKeepsWhatIsValid) {
  const ScratchFolder folder;
  const SweepResult first = sweep_of(folder, {"training.noise=0,0.1", "models.mac.d_model=2"});
  EXPECT_EQ(first.rows.size(), 2u);
  EXPECT_EQ(first.kept, 0u);
  EXPECT_NE(first.rows[0].error, first.rows[1].error) << "another noise, another model";
  EXPECT_EQ(first.rows[1].values, (std::vector<std::string>{"0.1", "2"}));
  EXPECT_NE(read_bytes(folder.file("sweep/sweep.csv")).find("training.noise"), std::string::npos);
  EXPECT_NE(read_bytes(folder.file("sweep/sweep.svg")).find("<svg"), std::string::npos);
  const std::string page = read_bytes(folder.file("sweep/sweep.html"));
  EXPECT_NE(page.find("<figure id=\"sweep\">"), std::string::npos);
  for (const char* ink : {"stroke=\"#444\"", "black", "<rect"})
    EXPECT_EQ(page.find(ink), std::string::npos)
        << ink << " is not seen in the dark, or is a white box there";

  const SweepResult more = sweep_of(folder, {"training.noise=0,0.1,0.2", "models.mac.d_model=2"});
  EXPECT_EQ(more.rows.size(), 3u);
  EXPECT_EQ(more.kept, first.done);
  EXPECT_EQ(more.rows[0].error, first.rows[0].error);
}

TEST(Sweep, MakesDataOnceThatCombinationsShare) {
  const ScratchFolder folder;
  sweep_of(folder, {"training.noise=0,0.1"});
  const auto data = [&](const std::string& run) {
    return folder.file("sweep/training.noise=" + run + "/data.h5");
  };
  EXPECT_TRUE(std::filesystem::equivalent(data("0"), data("0.1"))) << "a link";
  sweep_of(folder, {"data.seed=1,2"});
  EXPECT_NE(read_bytes(folder.file("sweep/data.seed=1/data.h5")),
            read_bytes(folder.file("sweep/data.seed=2/data.h5")));
}

TEST(Sweep, DrawsCombinationsBySeed) {
  const ScratchFolder one, two;
  const auto values = [](const SweepResult& result) {
    std::vector<std::string> all;
    for (const SweepRow& row : result.rows) all.push_back(row.values[0]);
    return all;
  };
  const auto drawn = values(sweep_of(one, {"training.noise=0,0.1,0.2,0.3"}, 2));
  EXPECT_EQ(drawn.size(), 2u);
  EXPECT_EQ(drawn, values(sweep_of(two, {"training.noise=0,0.1,0.2,0.3"}, 2)));
}

TEST(Sweep, SaysWhatIsWrongBeforeAnythingRuns) {
  const ScratchFolder folder;
  EXPECT_NE(refusal([] { sweep_axis("training.noise"); }).find("expected KEY=VALUE"), std::string::npos);
  EXPECT_NE(refusal([&] { sweep_of(folder, {"noise=1,2"}); }).find("noise: is no key of a table"),
            std::string::npos);
  EXPECT_NE(refusal([&] { sweep_of(folder, {"training.noize=1,2"}); }).find("did you mean \"noise\"?"),
            std::string::npos);
  EXPECT_NE(refusal([&] { sweep_of(folder, {"models.gru.d_model=1,2"}); }).find("models has no table for"),
            std::string::npos);
  EXPECT_NE(refusal([&] { sweep_of(folder, {"training.noise=0,-1"}); }).find("training.noise: is -1"),
            std::string::npos);
  EXPECT_NE(refusal([&] { sweep_axis("training.noise=0\nsteps = 9"); }).find("expected KEY=VALUE"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              sweep_of(folder, {"training.noise=0", "training.noise=1"});
            }).find("is there twice"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              sweep_of(folder, {"models.mac.kind=\"gru\",'gru'"});
            }).find("would have the same folder models.mac.kind=-gru-"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.file("sweep")));
}

TEST(Sweep, GoesOnAfterARunThatFails) {
  const ScratchFolder folder;
  const SweepResult result = sweep_of(folder, {"training.max_lr=1e-3,1e300"});
  EXPECT_EQ(result.rows.size(), 1u);
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_NE(result.failures[0].find("training.max_lr=1e300: training mac went wrong"), std::string::npos)
      << result.failures[0];
  EXPECT_NE(read_bytes(folder.file("sweep/sweep.csv")).find("1e-3"), std::string::npos);
  EXPECT_THROW(sweep_of(folder, {"training.max_lr=1e300"}), Error);  // nothing is left

  test::write_bytes(folder.file("study.toml"), study);
  const auto command =
      run_program("sweep " + folder.file("study.toml") +
                  " --over training.max_lr=1e-3,1e300 --quiet --threads 1 -o " + folder.file("out"));
  EXPECT_EQ(command.exit_code, 1);
  EXPECT_NE(command.output.find("1 of the runs failed, the others are in the table"), std::string::npos)
      << command.output;
}

TEST(Sweep, SetsValuesOfAnyType) {
  const std::string text = with_value(study, "s", "evaluation.intervals", "[[0, 0.1]]");
  EXPECT_EQ(Experiment::parse(text, "s").evaluation.intervals.size(), 1u);
  EXPECT_EQ(Experiment::parse(with_value(study, "s", "models.mac.kind", "mlp"), "s").models[0].kind, "mlp")
      << "a word is text";
  EXPECT_EQ(sweep_axis("a.b=[[0, 1], [2, 3]],[[0, 1]]").values.size(), 2u)
      << "commas in brackets part nothing";
}

TEST(Sweep, IsACommand) {
  const ScratchFolder folder;
  test::write_bytes(folder.file("study.toml"), study);
  const auto result =
      run_program("sweep " + folder.file("study.toml") +
                  " --over training.noise=0,0.1 --quiet --threads 1 -o " + folder.file("out"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("better than none"), std::string::npos);
  EXPECT_EQ(
      run_program("sweep " + folder.file("study.toml") + " --over noise -o " + folder.file("out")).exit_code,
      2);
}

}  // namespace
}  // namespace mac
