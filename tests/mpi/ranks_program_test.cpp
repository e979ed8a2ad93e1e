// mpirun -n N mac generate, rollout, diagnose: the bytes of one process, and a clear end when something fails.
#include <gtest/gtest.h>

#include <filesystem>
#include <mac/error.hpp>

#include "cli/ranks_absent.cpp"  // of a program without MPI; the one that the tests run has it
#include "mpi/program.hpp"

namespace mac::test {
namespace {

TEST(MpiProgram, RanksWriteTheBytesOfOneProcess) {
  const ScratchFolder folder;
  const std::string study = written(folder, "study.toml", small_study), data = folder.file("one.h5"),
                    rolled = folder.file("one-rollout.h5"), found = folder.file("one.json");
  ASSERT_EQ(run_program("generate " + study + " -o " + data).exit_code, 0);
  const ProgramResult alone = run_program("rollout exact --data " + data + " -o " + rolled);
  ASSERT_EQ(alone.exit_code, 0) << alone.output;
  ASSERT_EQ(run_program("diagnose " + study + " --only lyapunov,closure --json " + found).exit_code, 0);
  for (const std::size_t ranks : {1, 2, 3, 5}) {
    const std::string n = std::to_string(ranks);
    const ProgramResult generated = run_ranks(ranks, "generate " + study + " -o " + folder.file(n + ".h5"));
    EXPECT_EQ(generated.exit_code, 0) << generated.output;
    EXPECT_TRUE(read_bytes(folder.file(n + ".h5")) == read_bytes(data)) << n << " ranks";
  }
  const ProgramResult result =
      run_ranks(3, "rollout exact --data " + data + " -o " + folder.file("three-rollout.h5"));
  EXPECT_EQ(result.output, alone.output);  // one process prints
  EXPECT_TRUE(read_bytes(folder.file("three-rollout.h5")) == read_bytes(rolled));
  const ProgramResult diagnosed =
      run_ranks(3, "diagnose " + study + " --only lyapunov,closure --json " + folder.file("three.json"));
  EXPECT_EQ(diagnosed.exit_code, 0) << diagnosed.output;
  EXPECT_TRUE(read_bytes(folder.file("three.json")) == read_bytes(found));
}

TEST(MpiProgram, ABlowUpEndsAllRanksWithOneSentenceAndNoFile) {
  const ScratchFolder folder;
  const std::string study = written(folder, "study.toml",
                                    "[system]\nname = \"lorenz96\"\nwarmup_steps = 0\n[data]\ndt = "
                                    "0.1\n[data.train]\ntrajectories = 6\nhorizon = 5\n");
  const ProgramResult result = run_ranks(3, "generate " + study + " -o " + folder.file("data.h5"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("blew up in trajectory"), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("blew up"), result.output.rfind("blew up")) << result.output;
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"study.toml"});
}

TEST(MpiProgram, AFullDiskOfRankZeroEndsAllRanksAndLeavesNothing) {
  const ScratchFolder folder;
  const std::string study = written(folder, "study.toml", small_study);
  const std::string full = "if [ $RANK = 0 ]; then export LD_PRELOAD=" MAC_FAIL_LIBRARY
                           " MAC_FAIL_CALL=write MAC_FAIL_HOW=ENOSPC MAC_FAIL_NUMBER=3 MAC_FAIL_UNDER=" +
                           folder.path().string() + "; fi";
  const ProgramResult result = run_ranks(3, "generate " + study + " -o " + folder.file("data.h5"), full);
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_NE(result.output.find("No space left on device"), std::string::npos) << result.output;
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"study.toml"});
}

TEST(MpiProgram, AKilledRankEndsTheOthersAndTheNextTryIsGood) {
  const ScratchFolder folder;
  std::string longer = small_study;
  longer.replace(longer.find("trajectories = 7"), 16, "trajectories = 20000");
  const std::string study = written(folder, "long.toml", longer);
  const ProgramResult result = run_ranks(3, "generate " + study + " -o " + folder.file("data.h5"),
                                         "if [ $RANK = 1 ]; then (sleep 1; kill -9 $$) & fi");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder.file("data.h5"))) << result.output;
  const ProgramResult again = run_ranks(
      2, "generate " + written(folder, "study.toml", small_study) + " -o " + folder.file("data.h5"));
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"data.h5", "long.toml", "study.toml"}));
}

TEST(MpiProgram, AMistakeIsSaidOnceWithItsExitCode) {
  const ProgramResult result = run_ranks(2, "rollout exact --data data.h5 -o rollout.h5 --split");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("--split"), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("mac: "), result.output.rfind("mac: ")) << result.output;
}

TEST(MpiProgram, ADamagedDataFileIsRefusedOnce) {
  const ScratchFolder folder;
  const std::string study = written(folder, "study.toml",
                                    small_study +
                                        "[[models]]\nname = \"net\"\nkind = \"gru\"\nd_model = 2\nblocks = "
                                        "1\n[training]\nrecipe = \"fast\"\nsteps = 2\n"),
                    data = folder.file("data.h5");
  ASSERT_EQ(run_program("generate " + study + " -o " + data).exit_code, 0);
  std::string bytes = read_bytes(data);
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(data, bytes);
  const ProgramResult result =
      run_ranks(3, "train " + study + " --data " + data + " -o " + folder.file("net.safetensors"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("is damaged"), std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("is damaged"), result.output.rfind("is damaged")) << result.output;
}

TEST(MpiProgram, SaysWhichMpiItHas) {
  const std::string version = run_command(ranks_program() + " --version").output;
  EXPECT_NE(version.find(mpirun().find("mpich") != std::string::npos ? "MPICH" : "MPI"), std::string::npos)
      << version;
}

TEST(MpiProgram, WhatOneProcessCanDoIsDoneOnce) {
  const ProgramResult result = run_ranks(2, "info --settings");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, run_program("info --settings").output);
}

TEST(MpiProgram, AProgramWithoutMpiRefusesToBeOneOfMany) {
  const auto refusal = [](const char* variable, const char* value) -> std::string {
    ::setenv(variable, value, 1);
    std::string text;
    try {
      cli::join_ranks();
    } catch (const UsageError& error) {
      text = error.what();
    }
    ::unsetenv(variable);
    return text;
  };
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    EXPECT_NE(refusal(variable, "4").find("-DMAC_MPI=ON"), std::string::npos) << variable;
    EXPECT_EQ(refusal(variable, "1"), "");
  }
  EXPECT_EQ(refusal("SLURM_NTASKS", "4"), "");  // a batch script, one process
  ::setenv("MAC_ALONE", "1", 1);
  EXPECT_EQ(refusal("OMPI_COMM_WORLD_SIZE", "4"), "");
  ::unsetenv("MAC_ALONE");
  EXPECT_EQ(cli::mpi_description(), "no MPI");
}

}  // namespace
}  // namespace mac::test
