// Whole trainings, small: the same bytes however they are run, and never lost.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mac/error.hpp>
#include <mac/safetensors.hpp>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <thread>

#include "support/process.hpp"
#include "support/program.hpp"
#include "training/small_training.hpp"

namespace mac::test {
namespace {

namespace fs = std::filesystem;

TEST(Training, GivesTheSameBytesForAnyNumberOfThreads) {
  const ScratchFolder folder;
  for (const std::string training :
       {"", "optimiser = 'adamw'\n", "loss = 'rollout'\nrollout_steps = 3\nselect = 'loss'\n"}) {
    const std::string one = trained_bytes(training, folder.file("one.safetensors"), {1, true, false});
    EXPECT_EQ(one, trained_bytes(training, folder.file("two.safetensors"), {2, true, false}));
    EXPECT_EQ(one, trained_bytes(training, folder.file("three.safetensors"), {3, true, false}));
    EXPECT_EQ(read_bytes(folder.file("one.history.csv")), read_bytes(folder.file("two.history.csv")));
  }
}

TEST(Training, GivesTheSameWeightsWhenTheDataStayInTheFile) {
  const ScratchFolder folder;
  trained_bytes("", folder.file("memory.safetensors"));
  trained_bytes("memory = 0\n", folder.file("file.safetensors"));
  EXPECT_EQ(load_model(folder.file("memory.safetensors")).parameters,
            load_model(folder.file("file.safetensors")).parameters);
}

TEST(Training, LearnsTheClosure) {
  const ScratchFolder folder;
  const Experiment experiment = Experiment::parse(
      small_experiment("precision = 'float64'\nselect = 'loss'\n[models.training]\nsteps = 400\n"),
      "small.toml");
  const TrainingResult result = train(experiment, experiment.models.at(0), DataFile::open(small_data()),
                                      folder.file("m.safetensors"), {1, true, false});
  // A network that predicts the mean has a loss of 1 on data like the training data.
  EXPECT_LT(result.best_validation, 0.5);
  EXPECT_EQ(result.model.dtype, Dtype::f64);
  EXPECT_EQ(folder.count(), 2u);  // model and history: no checkpoint is left behind
}

/// Burgers' closures along the data, which leave little to chance: the density becomes large, its negative logarithm
/// negative.
TEST(Training, ByLikelihoodGoesBelowZeroAndGivesTheSameBytesForAnyNumberOfThreads) {
  const ScratchFolder folder;
  std::string text = small_experiment("loss = 'likelihood'\nselect = 'loss'\nmax_lr = 2e-2\n");
  text.replace(text.find("d_state = 3\n"), 12, "d_state = 3\ndeviations = true\nnoise_time = 0.2\n");
  text.replace(text.find("steps = 30"), 10, "steps = 150");
  const Experiment experiment = Experiment::parse(text, "small.toml");
  const auto bytes = [&](int threads) {
    const std::string path = folder.file(fmt::format("{}.safetensors", threads));
    const TrainingResult result = train(experiment, experiment.models.at(0), DataFile::open(small_data()),
                                        path, {threads, true, false});
    EXPECT_LT(result.best_validation, 0);
    return read_bytes(path);
  };
  EXPECT_EQ(bytes(1), bytes(7));
  EXPECT_TRUE(load_model(folder.file("1.safetensors")).shape.deviations);
}

TEST(Training, SaysInTheModelHowItWasMade) {
  const ScratchFolder folder;
  trained_bytes("", folder.file("m.safetensors"));
  const Model model = load_model(folder.file("m.safetensors"));
  EXPECT_EQ(model.system, "burgers");
  EXPECT_EQ(model.recipe, "fast");
  EXPECT_EQ(model.held->hold, Hold::linear);
  EXPECT_DOUBLE_EQ(*model.closure_step, 0.05);
  EXPECT_EQ(model.provenance.at("experiment"), small_experiment());
  EXPECT_EQ(model.provenance.at("seed"), "0");
  EXPECT_NE(model.provenance.at("training").find("max_lr = 0.004"), std::string::npos);
  EXPECT_EQ(std::stoul(model.provenance.at("best_step")) % 10, 0u);
}

TEST(Training, StopsWhenTheLossExplodes) {
  const ScratchFolder folder;
  try {
    trained_bytes("max_lr = 1e6\nclip = 0\n[models.training]\ncheckpoint_every = 1\n",
                  folder.file("m.safetensors"));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("at step"), std::string::npos) << text;
    EXPECT_NE(text.find("learning rate"), std::string::npos) << text;
    EXPECT_NE(text.find("m.checkpoint.safetensors"), std::string::npos) << text;
  }
  EXPECT_FALSE(fs::exists(folder.file("m.safetensors")));
}

TEST(Training, RefusesDataOfAnotherSystemOrStep) {
  const ScratchFolder folder;
  const DataFile data = DataFile::open(small_data());
  const auto message = [&](const std::string& what, const std::string& by) -> std::string {
    std::string text = small_experiment();
    const Experiment other = Experiment::parse(text.replace(text.find(what), what.size(), by), "other.toml");
    try {
      train(other, other.models.at(0), data, folder.file("m.safetensors"), {1, true, false});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message("grid", "modes = 4\ngrid").find("modes is 3, in other.toml it is 4"), std::string::npos);
  EXPECT_NE(message("grid", "viscosity = 0.9\ngrid").find("viscosity is 0.1, in other.toml it is 0.9"),
            std::string::npos);
  EXPECT_NE(message("stride = 10", "stride = 5").find("closure step (dt * stride) of 0.05"),
            std::string::npos);
  EXPECT_EQ(folder.count(), 0u);
}

class Interruption {
 public:
  explicit Interruption(int threads) : threads_(std::to_string(threads)) {
    // About half a second of work, with a checkpoint every few milliseconds; both optimisers.
    write_bytes(folder.file("small.toml"),
                small_experiment("[[training.stages]]\nsteps = 100\n"
                                 "[[training.stages]]\nsteps = 100\noptimiser = 'adamw'\n"));
  }
  Process start(const std::string& model, bool resume) const {
    std::vector<std::string> arguments{"train",  folder.file("small.toml"), "--data",    small_data(),
                                       "-o",     folder.file(model),        "--threads", threads_,
                                       "--quiet"};
    if (resume) arguments.push_back("--resume");
    return Process(arguments);
  }
  ScratchFolder folder;

 private:
  std::string threads_;
};

/// Kills trainings at random moments until `kills` of them hit; each must come to the same end.
void expect_the_same_after_kills(int kills) {
  RandomStream random(7, Purpose::noise, 0);
  std::string reference;
  for (const int threads : {1, 2}) {
    const Interruption run(threads);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(run.start("whole.safetensors", false).wait(), 0);
    const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
    if (reference.empty()) reference = read_bytes(run.folder.file("whole.safetensors"));
    const auto expect_reference = [&] {
      EXPECT_EQ(reference, read_bytes(run.folder.file("killed.safetensors"))) << threads << " threads";
      EXPECT_EQ(read_bytes(run.folder.file("whole.history.csv")),
                read_bytes(run.folder.file("killed.history.csv")));
      fs::remove(run.folder.file("killed.safetensors"));
    };
    for (int killed = 0; killed < kills;) {
      const Process process = run.start("killed.safetensors", true);
      std::this_thread::sleep_for(whole * random.uniform(0.05, 0.7));
      process.send(SIGKILL);
      if (process.wait() != 0)
        ++killed;
      else
        expect_reference();
    }
    EXPECT_EQ(run.start("killed.safetensors", true).wait(), 0);
    expect_reference();
  }
}

TEST(Resume, AfterKillsGivesTheSameBytes) { expect_the_same_after_kills(3); }

TEST(LongResume, AfterTwentyKillsGivesTheSameBytes) { expect_the_same_after_kills(20); }

TEST(Resume, AfterAnInterruptGivesTheSameBytes) {
  Interruption run(1);
  ASSERT_EQ(run.start("whole.safetensors", false).wait(), 0);
  const Process process = run.start("stopped.safetensors", false);
  while (!fs::exists(run.folder.file("stopped.checkpoint.safetensors")))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  process.send(SIGINT);
  EXPECT_EQ(process.wait(), 130);
  // Without --resume the unfinished work is not thrown away.
  EXPECT_EQ(run.start("stopped.safetensors", false).wait(), 2);
  EXPECT_EQ(run.start("stopped.safetensors", true).wait(), 0);
  EXPECT_EQ(read_bytes(run.folder.file("whole.safetensors")),
            read_bytes(run.folder.file("stopped.safetensors")));
}

class DamagedCheckpoint : public testing::Test {
 protected:
  DamagedCheckpoint() : run(1), newest(run.folder.file("m.checkpoint.safetensors")) {
    EXPECT_EQ(run.start("whole.safetensors", false).wait(), 0);
    const Process process = run.start("m.safetensors", false);
    while (!fs::exists(run.folder.file("m.checkpoint.previous.safetensors")))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    process.send(SIGTERM);
    EXPECT_EQ(process.wait(), 143);
  }
  ProgramResult resume() const {
    return run_program("train " + run.folder.file("small.toml") + " --data " + small_data() + " -o " +
                       run.folder.file("m.safetensors") + " --resume --quiet --threads 1");
  }
  void expect_fallback() const {
    const ProgramResult result = resume();
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_NE(result.output.find("the checkpoint before it"), std::string::npos) << result.output;
    EXPECT_EQ(read_bytes(run.folder.file("whole.safetensors")), read_bytes(run.folder.file("m.safetensors")));
  }
  Interruption run;
  std::string newest;
};

TEST_F(DamagedCheckpoint, WithATornFileFallsBackToThePreviousOne) {
  const std::string bytes = read_bytes(newest);
  write_bytes(newest, bytes.substr(0, bytes.size() / 2));
  expect_fallback();
}

TEST_F(DamagedCheckpoint, WithAFlippedBitFallsBackToThePreviousOne) {
  std::string bytes = read_bytes(newest);
  bytes[bytes.size() - 40] = static_cast<char>(bytes[bytes.size() - 40] ^ 1);
  write_bytes(newest, bytes);
  expect_fallback();
}

/// The checkpoint as earlier versions wrote it: another order of the arrays, FNV-1a as its checksum.
std::string earlier_form(const std::string& path) {
  const Safetensors file = Safetensors::read(path);
  SafetensorsWriter writer;
  std::uint64_t sum = 0xcbf29ce484222325ULL;
  const auto add = [&](const std::string& name, const auto& values) {
    const TensorInfo* info = file.find(name);
    writer.add(name, info ? info->shape : std::vector<std::size_t>{0}, std::span(values));
    for (const std::byte byte : std::as_bytes(std::span(values)))
      sum = (sum ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3ULL;
  };
  for (const char* name : {"parameters", "first_moment", "second_moment", "bases", "average", "best"}) {
    const std::vector<double> values = file.find(name) ? file.numbers(name) : std::vector<double>();
    add(name, std::vector<float>(values.begin(), values.end()));  // AdamW's bases were empty
  }
  add("counts", file.integers("counts"));
  for (const char* name : {"numbers", "history"}) add(name, file.numbers(name));
  for (const auto& [key, value] : file.metadata()) writer.set_metadata(key, value);
  writer.set_metadata("checksum", fmt::format("{:016x}", sum));
  return writer.bytes();
}

TEST_F(DamagedCheckpoint, OfAnEarlierVersionIsTakenUpIfItIsWhole) {
  const std::string earlier = earlier_form(newest);
  write_bytes(newest, earlier);
  const ProgramResult result = resume();
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_EQ(result.output.find("the checkpoint before it"), std::string::npos) << result.output;
  EXPECT_EQ(read_bytes(run.folder.file("whole.safetensors")), read_bytes(run.folder.file("m.safetensors")));
}

TEST_F(DamagedCheckpoint, OfAnEarlierVersionWithAFlippedBitFallsBackToThePreviousOne) {
  std::string earlier = earlier_form(newest);
  earlier[earlier.size() - 40] = static_cast<char>(earlier[earlier.size() - 40] ^ 1);
  write_bytes(newest, earlier);
  expect_fallback();
}

TEST_F(DamagedCheckpoint, OfAnotherTrainingIsRefused) {
  write_bytes(run.folder.file("small.toml"), small_experiment("[models.training]\nsteps = 201\n"));
  const ProgramResult result = resume();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("another training (its training differs)"), std::string::npos)
      << result.output;
  EXPECT_TRUE(fs::exists(newest));
}

TEST(Patience, EndsAStageAfterSoManyValidationsWithoutABetterOne) {
  const ScratchFolder folder;
  // At such a learning rate the validation error soon gets worse.
  const std::string text =
      "[models.training]\npatience = 3\nvalidate_every = 2\nmax_lr = 0.5\nclip = 0\n"
      "[[training.stages]]\nsteps = 200\n[[training.stages]]\nsteps = 20\nmax_lr = 1e-4\n";
  const Experiment experiment = Experiment::parse(small_experiment(text), "small.toml");
  const TrainingResult result = train(experiment, experiment.models.at(0), DataFile::open(small_data()),
                                      folder.file("m.safetensors"), {1, true, false});
  EXPECT_LT(result.steps, 220u);
  EXPECT_EQ(result.model.provenance.at("steps"), std::to_string(result.steps));

  std::istringstream history(read_bytes(folder.file("m.history.csv")));
  std::string line;
  std::getline(history, line);
  std::vector<double> errors;  // of the first stage's validations
  double last_step = 0;
  while (std::getline(history, line)) {
    const double step = std::stod(line);
    if (step > 200) break;
    last_step = step;
    if (!line.ends_with(',')) errors.push_back(std::stod(line.substr(line.rfind(',') + 1)));
  }
  ASSERT_GT(errors.size(), 3u);
  const auto best = std::ranges::min_element(errors);
  EXPECT_EQ(errors.end() - best, 1 + 3) << "three validations after the best";
  EXPECT_EQ(last_step, 2 * static_cast<double>(errors.size()));
  EXPECT_TRUE(line.starts_with("201,")) << "the second stage begins where it would have begun: " << line;
}

TEST(TrainCommand, WritesTheHistoryAsJsonLinesIfAsked) {
  const ScratchFolder folder;
  write_bytes(folder.file("small.toml"),
              small_experiment("[[training.stages]]\n[[training.stages]]\nsteps = 5\n"));
  const std::string command = "train " + folder.file("small.toml") + " --data " + small_data() +
                              " --quiet --threads 1 -o " + folder.file("m.safetensors");
  EXPECT_EQ(run_program(command + " --export-log xml").exit_code, 2);
  ASSERT_EQ(run_program(command).exit_code, 0);
  EXPECT_FALSE(fs::exists(folder.file("m.history.jsonl")));
  ASSERT_EQ(run_program(command + " --export-log jsonl").exit_code, 0);
  std::istringstream rows(read_bytes(folder.file("m.history.csv"))),
      lines(read_bytes(folder.file("m.history.jsonl")));
  std::string row, line;
  std::getline(rows, row);  // the heading
  std::size_t count = 0;
  while (std::getline(rows, row) && std::getline(lines, line)) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json.at("step"), ++count);
    EXPECT_EQ(json.at("stage"), count <= 30 ? 1 : 2);
    EXPECT_EQ(row, fmt::format("{},{:.9g},{:.9g},{:.9g},{}", count, json.at("loss").get<double>(),
                               json.at("lr").get<double>(), json.at("gradient_norm").get<double>(),
                               json.contains("validation")
                                   ? fmt::format("{:.9g}", json.at("validation").get<double>())
                                   : ""));
  }
  EXPECT_EQ(count, 35u);
  EXPECT_FALSE(std::getline(lines, line)) << line;
}

TEST(TrainCommand, TrainsSeveralSeedsIntoAFolderAndSkipsTheFinishedOnes) {
  const ScratchFolder folder;
  write_bytes(folder.file("small.toml"), small_experiment());
  const std::string command = "train " + folder.file("small.toml") + " --data " + small_data() +
                              " --seeds 3:5 --quiet --threads 1 -o " + folder.file("runs/");
  const ProgramResult first = run_program(command);
  EXPECT_EQ(first.exit_code, 0) << first.output;
  const std::string model = folder.file("runs/mac-seed4.safetensors");
  ASSERT_TRUE(fs::exists(model) && fs::exists(folder.file("runs/mac-seed3.history.csv")));
  EXPECT_NE(read_bytes(model), read_bytes(folder.file("runs/mac-seed3.safetensors")));
  const auto written = fs::last_write_time(model);
  EXPECT_EQ(run_program(command + " --resume").exit_code, 0);
  EXPECT_EQ(fs::last_write_time(model), written);
}

TEST(TrainCommand, RefusesWhatItCannotDo) {
  const ScratchFolder folder;
  write_bytes(folder.file("small.toml"), small_experiment());
  const std::string command = "train " + folder.file("small.toml") + " --data " + small_data() + " ";
  const auto expect = [&](const std::string& arguments, const std::string& message) {
    const ProgramResult result = run_program(command + arguments);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_NE(result.output.find(message), std::string::npos) << result.output;
  };
  expect("--seeds 0:2 -o " + folder.file("m.safetensors"), "need a folder");
  expect("--seeds 2 -o " + folder.file("runs/"), "expected FIRST:END");
  const ProgramResult result = run_program(command + "-o " + folder.file("missing/m.safetensors"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("missing/m.safetensors: cannot be written"), std::string::npos)
      << "said before the training, whose first file would be the history: " << result.output;
  expect("--model gru -o " + folder.file("m.safetensors"), "has no model \"gru\" to train, only mac");
  EXPECT_EQ(folder.count(), 1u);
}

}  // namespace
}  // namespace mac::test
