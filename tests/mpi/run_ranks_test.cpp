// mac run and mac sweep on ranks: models and combinations as tasks, what is done is kept, the results of one process.
#include <gtest/gtest.h>

#include <filesystem>
#include <mac/run.hpp>

#include "mpi/program.hpp"
#include "run/sweep.hpp"
#include "support/thread_ranks.hpp"

namespace mac::test {
namespace {

namespace fs = std::filesystem;

const std::string models = R"([[models]]
name = "gru"
kind = "gru"
d_model = 2
blocks = 1
[[models]]
name = "regression"
kind = "regression"
[training]
recipe = "fast"
steps = 2
batch = 4
validate_every = 2
)";

RunOptions quiet_options() {
  RunOptions options;
  options.threads = 1;
  options.quiet = true;
  options.report = false;
  options.say_warnings = false;
  return options;
}

/// The files of a study that are the same whenever it is made.
std::vector<std::string> outputs_of(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    for (const char* ending : {".h5", ".safetensors", ".csv", "metrics.json", "run.json"})
      if (entry.path().string().ends_with(ending))
        files.push_back(fs::relative(entry.path(), folder).string());
  std::ranges::sort(files);
  return files;
}

TEST(RunOverRanks, GivesTheFilesOfOneProcessAndKeepsThem) {
  const ScratchFolder folder;
  const Experiment experiment = Experiment::parse(small_study + models, "study.toml");
  RunOptions options = quiet_options();
  options.seeds = {0, 1};
  const RunResult alone = run_study(experiment, folder.file("one"), options);
  for (const std::size_t count : {2, 4}) {
    const std::string target = folder.file(std::to_string(count));
    for (const bool again : {false, true}) {
      const auto failures = on_ranks(count, [&] {
        const RunResult result = run_study(experiment, target, options);
        EXPECT_EQ(result.done, again ? 0 : alone.done);
        EXPECT_EQ(result.kept, again ? alone.done : 0);
      });
      for (const auto& failure : failures) EXPECT_EQ(message_of(failure), "");
    }
    ASSERT_EQ(outputs_of(target), outputs_of(folder.file("one")));
    for (const std::string& file : outputs_of(target))
      EXPECT_TRUE(read_bytes(target + "/" + file) == read_bytes(folder.file("one/" + file))) << file;
  }
}

TEST(RunOverRanks, AMissingModelIsTrainedByAllTogether) {
  const ScratchFolder folder;
  const Experiment experiment = Experiment::parse(small_study + models, "study.toml");
  run_study(experiment, folder.file("one"), quiet_options());
  const std::string model = folder.file("one/models/gru-seed0.safetensors"), bytes = read_bytes(model);
  fs::remove(model);
  const auto failures =
      on_ranks(3, [&] { EXPECT_EQ(run_study(experiment, folder.file("one"), quiet_options()).done, 1u); });
  for (const auto& failure : failures) EXPECT_EQ(message_of(failure), "");
  EXPECT_TRUE(read_bytes(model) == bytes);
}

SweepResult swept(const std::string& folder, const std::vector<std::string>& over) {
  SweepOptions options;
  options.run = quiet_options();
  std::vector<SweepAxis> axes;
  for (const std::string& text : over) axes.push_back(sweep_axis(text));
  return sweep(Experiment::parse(small_study + models, "study.toml"), axes, folder, options);
}

TEST(SweepOverRanks, GivesTheTableOfOneProcess) {
  const ScratchFolder folder;
  for (const std::string values : {"0,0.1", "0,0.1,0.2,0.3"}) {  // fewer than ranks, and more
    const std::vector<std::string> over{"training.noise=" + values, "data.seed=1,2"};
    const std::string one = folder.file("one" + values), three = folder.file("three" + values);
    const SweepResult alone = swept(one, over);
    const auto failures = on_ranks(5, [&] {
      const SweepResult result = swept(three, over);
      if (ranks().root()) {
        EXPECT_EQ(result.done + result.kept, alone.done + alone.kept);
        EXPECT_EQ(result.best, alone.best);
      }
    });
    for (const auto& failure : failures) EXPECT_EQ(message_of(failure), "");
    for (const char* file : {"/sweep.csv", "/sweep.svg", "/sweep.html"})
      EXPECT_TRUE(read_bytes(three + file) == read_bytes(one + file)) << file;
    EXPECT_TRUE(alone.best.has_value());
    EXPECT_NE(read_bytes(one + "/sweep.html").find("Best by validation error"), std::string::npos);
  }
}

TEST(MpiProgram, ASweepThatIsKilledAgainAndAgainComputesEachRunOnce) {
  const ScratchFolder folder;
  const std::string study = written(folder, "study.toml", small_study + models),
                    target = folder.file("sweep");
  const std::string arguments =
      "sweep " + study + " --over training.noise=0,0.1,0.2,0.3 --over data.seed=1,2 --quiet -o " + target;
  for (int kill = 0; kill < 3; ++kill)
    run_ranks(2, arguments, "if [ $RANK = 1 ]; then (sleep 1.5; kill -9 $$) & fi");
  ASSERT_TRUE(fs::exists(target));
  std::map<std::string, fs::file_time_type> made;
  for (const auto& entry : fs::recursive_directory_iterator(target))
    if (entry.path().filename() == "metrics.json") made[entry.path().string()] = entry.last_write_time();
  const ProgramResult last = run_ranks(3, arguments);
  EXPECT_EQ(last.exit_code, 0) << last.output;
  for (const auto& [path, time] : made) EXPECT_EQ(fs::last_write_time(path), time) << path;
  const ProgramResult again = run_program(arguments);
  EXPECT_NE(again.output.find("\n0 made, "), std::string::npos) << again.output;
  EXPECT_NE(again.output.find("best by validation error: "), std::string::npos) << again.output;
}

TEST(MpiProgram, ASlurmScriptDoesTheSweepInJobs) {
  const ScratchFolder folder;
  // All that a shell could take for something else.
  const std::string name = "my \"study\" $(touch gone)\n`touch gone`; \\ \xc3\xa9.toml";
  const std::string study = written(folder, name, small_study + models), target = folder.file("out");
  // A Slurm of one line: sbatch runs what it is given at once, by sh, every task of an array.
  written(folder, "sbatch", R"(#!/usr/bin/env bash
tasks=(0)
for word; do
  case $word in
    --array=*) range=${word#--array=}; range=${range%\%*}; mapfile -t tasks < <(seq "${range%-*}" "${range#*-}");;
    --wrap=*) job=${word#--wrap=};;
  esac
done
for SLURM_ARRAY_TASK_ID in "${tasks[@]}"; do export SLURM_ARRAY_TASK_ID; sh -c "$job" >> jobs.log 2>&1; done
echo 1234
)");
  fs::permissions(folder.file("sbatch"), fs::perms::owner_all);
  const ProgramResult script = run_program(
      "sweep '" + study + "' --over training.noise=0,0.1 --threads 1 --quiet -o " + target + " --slurm");
  ASSERT_EQ(script.exit_code, 0) << script.output;
  ASSERT_EQ(names_in(target), std::vector<std::string>{"sweep.sh"});
  const ProgramResult jobs =
      run_command("cd " + folder.path().string() + " && LC_ALL=C PATH=.:$PATH bash out/sweep.sh 2>&1");
  EXPECT_EQ(jobs.exit_code, 0) << jobs.output << read_bytes(folder.file("jobs.log"));
  EXPECT_EQ(names_in(target), (std::vector<std::string>{"sweep.csv", "sweep.html", "sweep.sh", "sweep.svg",
                                                        "training.noise=0", "training.noise=0.1"}))
      << read_bytes(folder.file("jobs.log"));
  EXPECT_FALSE(fs::exists(folder.file("gone")));
  EXPECT_EQ(
      run_program("sweep '" + study + "' --over training.noise=0,0.1 -o " + target + " --point 2").exit_code,
      2);
}

}  // namespace
}  // namespace mac::test
