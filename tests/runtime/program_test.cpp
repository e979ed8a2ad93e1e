// The shared runtime as programs in C and Fortran see it: the library's steps to the last bit, with a restart
// at a random step; no allocation in a step; messages for wrong use.
#include "support/program.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "runtime/closure_file.hpp"

namespace mac::test {
namespace {

constexpr std::size_t d = 6, columns = 5, steps = 30;

std::string program(const std::string& name) { return MAC_BUILD_FOLDER "/tests/programs/" + name; }
bool has_fortran() { return std::filesystem::exists(program("steps_fortran")); }

std::string raw(const std::vector<double>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double));
}

class Program : public ::testing::Test {
 protected:
  /// The closures that a program writes for the inputs.
  std::string closures(const std::string& name, const std::string& layout = "", std::size_t count = columns) {
    stop_ = std::random_device{}() % steps;
    const ProgramResult result =
        run_command(program(name) + " " + path_ + " " + folder_.file("y") + " " + folder_.file("c") + " " +
                    std::to_string(count) + " " + std::to_string(stop_) + " " + layout + " 2>&1");
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return read_bytes(folder_.file("c"));
  }
  std::string expected(std::size_t count = columns) {
    const std::vector<double> y = random_inputs(steps, count, d);
    write_bytes(folder_.file("y"), raw(y));
    return raw(engine_steps<float>(model_, y, count));
  }

  std::size_t stop_ = 0;  // where the last program saved its state and went on from it
  ScratchFolder folder_;
  Model model_ = burgers_closure(LayerKind::mamba);
  std::string path_ = write_closure(folder_, model_);
};

TEST_F(Program, InCStepsAndRestartsToTheLastBit) {
  const std::string steps_of_the_library = expected();
  EXPECT_TRUE(closures("steps_c") == steps_of_the_library) << "restarted at step " << stop_;
}

TEST_F(Program, InFortranStepsAndRestartsToTheLastBit) {
  if (!has_fortran()) GTEST_SKIP() << "there is no Fortran compiler";
  std::string steps_of_the_library = expected();
  EXPECT_TRUE(closures("steps_fortran", "double") == steps_of_the_library) << "restarted at step " << stop_;
  EXPECT_TRUE(closures("steps_fortran", "section") == steps_of_the_library) << "restarted at step " << stop_;
  steps_of_the_library = expected(1);
  EXPECT_TRUE(closures("steps_fortran", "column", 1) == steps_of_the_library)
      << "restarted at step " << stop_;
}

TEST_F(Program, InCAndFortranReadsTheSameNoiseBeforeAndAfterARestart) {
  for (const Model& model :
       {stochastic_burgers_closure(LayerKind::mamba), deviating_burgers_closure(LayerKind::mamba)}) {
    model_ = model;
    path_ = write_closure(folder_, model_, "stochastic.safetensors");
    const std::string steps_of_the_library = expected();
    EXPECT_TRUE(closures("steps_c") == steps_of_the_library) << "restarted at step " << stop_;
    if (!has_fortran()) GTEST_SKIP() << "there is no Fortran compiler";
    EXPECT_TRUE(closures("steps_fortran", "double") == steps_of_the_library) << "restarted at step " << stop_;
  }
}

TEST_F(Program, InCAndFortranKeepsTheFrameOfTheFirstStateAfterARestart) {
  model_ = framed_burgers_closure(LayerKind::mamba);
  path_ = write_closure(folder_, model_, "framed.safetensors");
  const std::string steps_of_the_library = expected();
  EXPECT_TRUE(closures("steps_c") == steps_of_the_library) << "restarted at step " << stop_;
  if (!has_fortran()) GTEST_SKIP() << "there is no Fortran compiler";
  EXPECT_TRUE(closures("steps_fortran", "double") == steps_of_the_library) << "restarted at step " << stop_;
}

TEST_F(Program, InFortranTakesSinglePrecision) {
  if (!has_fortran()) GTEST_SKIP() << "there is no Fortran compiler";
  std::vector<double> y = random_inputs(steps, columns, d);
  write_bytes(folder_.file("y"), raw(y));
  for (double& value : y) value = static_cast<double>(static_cast<float>(value));
  std::vector<double> closure = engine_steps<float>(model_, y, columns);
  for (double& value : closure) value = static_cast<double>(static_cast<float>(value));
  EXPECT_TRUE(closures("steps_fortran", "single") == raw(closure)) << "restarted at step " << stop_;
}

TEST_F(Program, InFortranHasDerivativesThatPassDotProductAndTaylorTests) {
  if (!has_fortran()) GTEST_SKIP() << "there is no Fortran compiler";
  for (const LayerKind kind : layer_kinds) {
    const std::string path = write_closure(folder_, burgers_closure(kind), "of_kind.safetensors");
    const ProgramResult result = run_command(program("derivatives_fortran") + " " + path + " 2>&1");
    EXPECT_EQ(result.exit_code, 0) << to_string(kind) << ": " << result.output;
    for (const char* line : {"dy does not lie in memory as y does", "step 9 is not on the tape, which has 8"})
      EXPECT_NE(result.output.find(line), std::string::npos) << line << " is not in\n" << result.output;
  }
}

TEST_F(Program, InFortranStepsFieldsWithHalosLetsColumnsRestAndCouples) {
  if (!has_fortran()) GTEST_SKIP() << "there is no Fortran compiler";
  model_.training_range = TrainingRange{std::vector<double>(d, -1),
                                        std::vector<double>(d, 1),
                                        std::vector<double>(d, -1),
                                        std::vector<double>(d, 1),
                                        {},
                                        {}};
  const std::string path = write_closure(folder_, model_, "with_range.safetensors");
  const ProgramResult result = run_command(program("fields_fortran") + " " + path + " 2>&1");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  for (const char* line :
       {"y and closure are not fields of one grid", "the saved coupler has 432 numbers: expected 433",
        "y has the shape (6, 23): expected (6, 24)",
        "the host step 0.00375 neither divides the closure step 0.01", "the coupler has not been created",
        "input_low has 5 elements: expected 6", "give all, or none for the range of the training data",
        "y has 5 fields: expected 6", "field 3 of y does not lie as the first",
        "field 3 of y is not associated", "the state or coupler has not been created"})
    EXPECT_NE(result.output.find(line), std::string::npos) << line << " is not in\n" << result.output;
}

TEST_F(Program, OnSixtyFourThreadsGivesTheSerialAnswer) {
  const ProgramResult result = run_command(program("threads") + " " + path_ + " 2>&1");
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(Program, AsksForNoMemoryDuringAStep) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers bring an allocator of their own";
#endif
  for (const LayerKind kind : layer_kinds) {
    if (!burgers_closure(kind).shape.state_size()) continue;  // no memory to ask for
    SCOPED_TRACE(to_string(kind));
    const std::string path = write_closure(folder_, burgers_closure(kind), std::string(to_string(kind)));
    const ProgramResult result = run_command(program("no_allocation") + " " + path + " 2>&1");
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_NE(result.output.find(", 0 during"), std::string::npos) << result.output;
    EXPECT_EQ(result.output.find("0 requests before"), std::string::npos)
        << "nothing was counted: " << result.output;
  }
}

TEST_F(Program, InFortranSaysWhatWasWrong) {
  if (!has_fortran()) GTEST_SKIP() << "there is no Fortran compiler";
  const std::string other =
      write_closure(folder_, burgers_closure(LayerKind::mamba, {}, 2), "other.safetensors");
  write_bytes(folder_.file("text"), "this is not a model, but a text");
  const ProgramResult result = run_command(program("misuse_fortran") + " " + path_ + " " + other + " " +
                                           folder_.file("text") + " 2>&1");
  for (const char* line :
       {"missing | 2 | missing.safetensors: does not exist", "foreign | 2 | ",
        "precision | 1 | mac_model_open: precision is 7",
        "null model | 1 | mac_state_create: the argument model is null",
        "null state | 1 | the state has not been created",
        "null save | 1 | mac_state_save: the argument state is null", "columns | 1 | a state of 0 columns",
        "shape | 1 | y has the shape (6, 2): expected (6, 3)",
        "closure shape | 1 | closure has the shape (5, 3): expected (6, 3)",
        "nan | 4 | the input is nan in column 2, component 1 (phi2)",
        "another model | 3 | the saved state belongs to another model",
        "short | 3 | the saved state has 20 bytes", "ERROR STOP mac: the input is nan"})
    EXPECT_NE(result.output.find(line), std::string::npos) << line << " is not in\n" << result.output;
  EXPECT_NE(result.exit_code, 0);
}

TEST(RuntimeBench, SaysHowItIsUsedWhenAskedForHelp) {
  const std::string bench = MAC_BUILD_FOLDER "/bench/runtime_bench";
  if (!std::filesystem::exists(bench)) GTEST_SKIP() << "the benchmarks are not built";
  const ScratchFolder folder;
  const ProgramResult result = run_command("cd " + folder.path().string() + " && " + bench + " --help");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "usage: runtime_bench MODEL\n");
  EXPECT_EQ(folder.count(), 0u) << "--help is no file";
  EXPECT_EQ(run_command(bench + " 2>&1").exit_code, 2);
}

}  // namespace
}  // namespace mac::test
