// mac run: does what is missing, keeps what is valid, goes on after a kill.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/model.hpp>
#include <mac/run.hpp>
#include <nlohmann/json.hpp>

#include "io/content_hash.hpp"
#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

using test::read_bytes;
using test::ScratchFolder;
using test::write_bytes;

const std::string study = R"([system]
name = "burgers"
grid = 32
[data]
dt = 1e-3
stride = 10
[data.train]
trajectories = 8
horizon = 0.2
[data.validation]
trajectories = 2
horizon = 0.2
[data.test]
trajectories = 3
horizon = 0.2
[[models]]
name = "mac"
kind = "mamba"
d_model = 3
blocks = 1
d_state = 2
[training]
recipe = "fast"
steps = 6
batch = 4
validate_every = 3
)";

class Run : public ::testing::Test {
 protected:
  RunResult run(const std::string& text, RunOptions options = {}) {
    options.threads = 1;
    options.quiet = true;
    return run_study(Experiment::parse(text, "study.toml"), folder_.file("run"), options);
  }
  static std::string changed(const std::string& what, const std::string& by) {
    std::string text = study;
    return text.replace(text.find(what), what.size(), by);
  }
  ScratchFolder folder_;
};

TEST_F(Run, LeavesTheReportOutWhereAskedTo) {
  const RunResult without = run(study, {.report = false});
  EXPECT_EQ(without.done, 6u) << "data, model, three rollouts, metrics";
  EXPECT_TRUE(without.report.empty());
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run/report.html"));
  EXPECT_EQ(run(study).done, 1u) << "the report";
}

TEST_F(Run, DoesEverythingOnceAndNothingTheSecondTime) {
  const RunResult first = run(study);
  EXPECT_EQ(first.done, 7u) << "data, model, three rollouts, metrics, report";
  EXPECT_EQ(first.kept, 0u);
  for (const char* file : {"data.h5", "models/mac-seed0.safetensors", "rollouts/mac-seed0.h5",
                           "rollouts/markov.h5", "rollouts/exact.h5", "metrics.json", "report.html"})
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / "run" / file)) << file;
  const RunResult second = run(study);
  EXPECT_EQ(second.done, 0u);
  EXPECT_EQ(second.kept, 7u);
  EXPECT_EQ(to_json(first.evaluation)["models"], to_json(second.evaluation)["models"]);
}

TEST_F(Run, DoesAgainWhatAChangeReaches) {
  run(study);
  EXPECT_EQ(run(study + "# a comment\n").done, 0u) << "comments don't count";
  EXPECT_EQ(run(changed("[training]\n", "[evaluation]\nintervals = [[0, 0.1]]\n[training]\n")).done, 2u)
      << "metrics and report";
  EXPECT_EQ(run(changed("steps = 6", "steps = 7")).done, 4u) << "model, its rollout, metrics, report";
  EXPECT_EQ(run(changed("trajectories = 3", "trajectories = 4")).done, 7u) << "everything";
}

TEST_F(Run, TrustsContentNotDates) {
  run(study);
  const auto rollout = folder_.path() / "run" / "rollouts" / "markov.h5";
  std::filesystem::last_write_time(rollout, std::filesystem::file_time_type::clock::now());
  EXPECT_EQ(run(study).done, 0u) << "touched, not changed";
  std::string bytes = read_bytes(rollout.string());
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(rollout.string(), bytes);
  EXPECT_GE(run(study).done, 1u) << "damaged";
  EXPECT_EQ(run(study).done, 0u);
  std::filesystem::remove(rollout);
  EXPECT_GE(run(study).done, 1u) << "removed";
}

TEST_F(Run, TrainsADamagedModelAgain) {
  run(study);
  const std::string model = folder_.file("run/models/mac-seed0.safetensors"), whole = read_bytes(model);
  std::string flipped = whole;
  flipped[flipped.size() - 5] ^= 1;
  for (const std::string& damaged : {flipped, whole.substr(0, whole.size() / 2)}) {
    write_bytes(model, damaged);
    EXPECT_EQ(run(study).done, 1u) << "the training gives the same bytes, so nothing after it changes";
    EXPECT_EQ(read_bytes(model), whole);
  }
}

TEST_F(Run, RepeatsAForcedStage) {
  run(study);
  RunOptions options;
  options.force = {"train"};
  const RunResult result = run(study, options);
  EXPECT_EQ(result.done, 1u) << "the same training gives the same bytes, so nothing after it changes";
}

TEST_F(Run, TrainsEverySeedAndPoolsThem) {
  RunOptions options;
  options.seeds = {0, 1, 2};
  const RunResult result = run(study, options);
  EXPECT_EQ(result.evaluation.models.front().files.size(), 3u);
  EXPECT_EQ(result.evaluation.models.front().splits.at("test").trajectories, 9u);
}

TEST_F(Run, ReportsNothingOfWhatTheFolderHeldBefore) {
  RunOptions options;
  options.seeds = {0, 7};
  run(study, options);
  const std::string page = folder_.file("run/report.html");
  EXPECT_NE(read_bytes(page).find("mac-seed7"), std::string::npos);
  const RunResult result = run(changed("grid = 32", "grid = 32\nviscosity = 0.3"));
  EXPECT_TRUE(std::filesystem::exists(folder_.file("run/rollouts/mac-seed7.h5"))) << "for another time";
  EXPECT_EQ(read_bytes(page).find("mac-seed7"), std::string::npos);
  EXPECT_EQ(read_bytes(page).find("2 seeds"), std::string::npos);
  EXPECT_EQ(result.evaluation.models.front().files.size(), 1u);
}

TEST_F(Run, SaysBeforeItStartsWhatIsMissing) {
  const auto message = [&](const std::string& text, RunOptions options = {}) -> std::string {
    try {
      run(text, options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(changed("[data.test]\ntrajectories = 3\nhorizon = 0.2\n", "")),
            "study.toml: has no [data.test] and no [data.ood] to roll the models out on");
  EXPECT_EQ(message(changed("[data.validation]\ntrajectories = 2\nhorizon = 0.2\n", "")),
            "study.toml: has no [data.validation] to select the weights of mac by; say select = \"last\"");
  EXPECT_EQ(message(study + "[[models]]\nname = \"kernel\"\nkind = \"linear_memory\"\nhorizon = 0.1\n"),
            "study.toml: kernel reaches to t = 0.1, [data.test] to 0.2; give it a longer horizon");
  EXPECT_EQ(message("[system]\nname = \"recorded\"\nresolved = [\"x\"]\n" +
                    study.substr(study.find("[data]"), study.find("[[models]]") - study.find("[data]"))),
            "study.toml: recorded data come without equations to simulate; train on them with mac train");
  RunOptions options;
  options.force = {"trian"};
  EXPECT_EQ(message(study, options),
            "there is no stage \"trian\" to force, only generate, train, rollout, evaluate, report");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run"));
}

/// The study with a trained model instead of a training.
std::string with_file(const std::string& file, const std::string& step = "stride = 10") {
  return "[system]\nname = \"burgers\"\ngrid = 32\n[data]\ndt = 1e-3\n" + step +
         "\nseed = 1003\n[data.test]\ntrajectories = 3\nhorizon = 0.2\n"
         "[[models]]\nname = \"from_zoo\"\nfile = \"" +
         file + "\"\n";
}

TEST_F(Run, TakesATrainedModelAsItIs) {
  run(study);
  std::filesystem::create_directory(folder_.path() / "zoo");
  const std::string model = folder_.file("run/models/mac-seed0.safetensors");
  std::filesystem::rename(model, folder_.file("zoo/tiny.safetensors"));
  std::filesystem::remove_all(folder_.path() / "run");
  write_bytes(folder_.file("study.toml"), with_file("zoo/tiny.safetensors"));
  const auto again = [&] {
    RunOptions options;
    options.threads = 1;
    options.quiet = true;
    options.seeds = {0, 1};  // of trainings; a trained model has none
    return run_study(Experiment::read(folder_.file("study.toml")), folder_.file("run"), options);
  };
  const RunResult first = again();
  EXPECT_EQ(first.done, 7u) << "data, copy, three rollouts, metrics, report";
  EXPECT_EQ(first.evaluation.models.front().model, "from_zoo");
  EXPECT_EQ(read_bytes(folder_.file("run/models/from_zoo.safetensors")),
            read_bytes(folder_.file("zoo/tiny.safetensors")));
  EXPECT_EQ(again().done, 0u);

  Model changed = load_model(folder_.file("zoo/tiny.safetensors"));
  changed.parameters.back() += 0.5;
  save_model(changed, folder_.file("zoo/tiny.safetensors"));
  EXPECT_EQ(again().done, 4u) << "copy, its rollout, metrics, report: content counts";
}

TEST_F(Run, LeavesAFolderWhoseExperimentRunsAgain) {
  run(study);
  std::filesystem::create_directory(folder_.path() / "zö");
  std::filesystem::rename(folder_.path() / "run/models/mac-seed0.safetensors",
                          folder_.path() / "zö/tiny.safetensors");
  std::filesystem::remove_all(folder_.path() / "run");
  // Two on one line, one with a letter of two bytes, one with an escape.
  const std::string text =
      "models = [{name = \"a\", file = 'zö/tiny.safetensors'}, {file = \"zö/t\\u0069ny.safetensors\"}]\n" +
      with_file("").substr(0, with_file("").find("[[models]]"));
  write_bytes(folder_.file("study.toml"), text);
  const auto again = [&](const std::string& experiment, const std::string& folder) {
    RunOptions options;
    options.threads = 1;
    options.quiet = true;
    return run_study(Experiment::read(folder_.file(experiment)), folder_.file(folder), options);
  };
  const RunResult first = again("study.toml", "run");
  std::filesystem::remove_all(folder_.path() / "zö");
  const std::string kept = read_bytes(folder_.file("run/experiment.toml"));
  EXPECT_EQ(
      kept.substr(0, kept.find('\n')),
      "models = [{name = \"a\", file = \"models/a.safetensors\"}, {file = \"models/tiny.safetensors\"}]");
  EXPECT_EQ(again("run/experiment.toml", "run").done, 0u) << "its models are in place";
  std::filesystem::remove(folder_.path() / "run/run.json");
  EXPECT_EQ(again("run/experiment.toml", "run").done, first.done) << "the file is its own copy";
  EXPECT_EQ(again("run/experiment.toml", "copy").done, first.done);
}

TEST_F(Run, TrainsAgainWhereTheWeightsItStartsFromChanged) {
  run(study);
  const std::string init = folder_.file("init.safetensors");
  std::filesystem::copy_file(folder_.file("run/models/mac-seed0.safetensors"), init);
  write_bytes(folder_.file("study.toml"), changed("steps = 6", "steps = 3\ninit = \"init.safetensors\""));
  const auto again = [&](const char* experiment) {
    RunOptions options;
    options.threads = 1;
    options.quiet = true;
    return run_study(Experiment::read(folder_.file(experiment)), folder_.file("run"), options).done;
  };
  EXPECT_EQ(again("study.toml"), 4u) << "network, its rollout, metrics, report";
  EXPECT_EQ(again("study.toml"), 0u);
  EXPECT_EQ(again("run/experiment.toml"), 0u) << "the copy names the same file";
  Model model = load_model(init);
  model.parameters.back() += 0.5;
  save_model(model, init);
  EXPECT_EQ(again("study.toml"), 4u);
  std::filesystem::remove(init);
  EXPECT_THROW(again("study.toml"), Error);
}

TEST_F(Run, SaysBeforeItStartsWhyATrainedModelDoesNotFit) {
  run(study);
  const std::string model = folder_.file("run/models/mac-seed0.safetensors");
  const auto message = [&](const std::string& text) -> std::string {
    RunOptions options;
    options.quiet = true;
    try {
      run_study(Experiment::parse(text, "study.toml"), folder_.file("other"), options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(message(with_file("/nowhere/none.safetensors")),
         "/nowhere/none.safetensors: there is no such model file, but study.toml names it");
  expect(message(with_file(model, "stride = 20")), "closure step of 0.01, but study.toml saves every 0.02");
  std::string kdv = with_file(model);
  expect(message(kdv.replace(kdv.find("burgers"), 7, "kdv")),
         "is a closure for burgers, but study.toml is about kdv");
  std::string modes = with_file(model);
  expect(message(modes.replace(modes.find("grid"), 0, "modes = 2\n")), "reads the variables phi1 phi2 phi3");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "other"));
}

TEST_F(Run, LeavesATrainedModelOutOfTraining) {
  run(study);
  write_bytes(folder_.file("study.toml"), with_file("run/models/mac-seed0.safetensors"));
  const auto result = test::run_program("train " + folder_.file("study.toml") + " --data " +
                                        folder_.file("run/data.h5") + " -o " + folder_.file("out/"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("from_zoo: is trained already: "), std::string::npos) << result.output;
}

TEST_F(Run, NamesADamagedRecord) {
  run(study);
  write_bytes((folder_.path() / "run" / "run.json").string(), "{\"outputs\": 3");
  EXPECT_THROW(run(study), Error);
}

TEST_F(Run, GoesOnAfterAKill) {
  write_bytes(folder_.file("study.toml"), changed("steps = 6", "steps = 4000\ncheckpoint_every = 20"));
  const std::string arguments =
      "run " + folder_.file("study.toml") + " -o " + folder_.file("run") + " --quiet";
  const std::string model_file = folder_.file("run/models/mac-seed0.safetensors");
  // Killed as soon as the first checkpoint is there; the training has thousands of steps to go.
  const std::string kill_at_checkpoint =
      fmt::format("{} {} & while [ ! -e {} ]; do sleep 0.01; done; kill -9 $!; wait $! 2>/dev/null",
                  MAC_PROGRAM, arguments, folder_.file("run/models/mac-seed0.checkpoint.safetensors"));
  EXPECT_NE(std::system(kill_at_checkpoint.c_str()), 0);
  ASSERT_FALSE(std::filesystem::exists(model_file)) << "the run was to be killed while it trains";
  const auto resumed = test::run_program(arguments);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  const std::string model = read_bytes(model_file);
  std::filesystem::remove_all(folder_.path() / "run");
  ASSERT_EQ(test::run_program(arguments).exit_code, 0);
  EXPECT_EQ(read_bytes(model_file), model);
}

TEST(ContentHash, HashesPartsWithTheirBoundaries) {
  EXPECT_NE(hash_parts({"ab", "c"}), hash_parts({"a", "bc"}));
  EXPECT_EQ(hash_parts({"a", "b"}), hash_parts({"a", "b"}));
}

}  // namespace
}  // namespace mac
