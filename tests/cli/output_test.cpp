// What becomes of outputs that cannot be written, or are no files.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "cli/command_line.hpp"

namespace mac {
namespace {

namespace fs = std::filesystem;
using test::CommandLine;
using test::ProgramResult;
using test::read_bytes;
using test::study;
using test::write_bytes;

class Outputs : public CommandLine {};

TEST_F(Outputs, ThatAreDevicesOrPipesAreRefusedNotReplaced) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  fs::create_symlink(file("pipe"), file("link"));
  generate();
  for (const char* arguments :
       {"generate @/study.toml -o @/pipe", "generate @/study.toml -o @/link",
        "rollout markov --data @/data.h5 -o @/pipe", "info @/data.h5 --json @/pipe"}) {
    const ProgramResult result = mac(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_NE(result.output.find("is a device or a pipe"), std::string::npos) << result.output;
  }
  EXPECT_TRUE(fs::is_fifo(file("pipe")));
  EXPECT_TRUE(fs::is_symlink(file("link")));
}

TEST_F(Outputs, GoThroughALinkThatStaysOne) {
  fs::create_directory(file("scratch"));
  fs::create_symlink("scratch/data.h5", file("link.h5"));  // leads nowhere yet
  for (int again = 0; again < 2; ++again) {
    ASSERT_EQ(mac("generate @/study.toml -o @/link.h5").exit_code, 0);
    EXPECT_TRUE(fs::is_symlink(file("link.h5")));
    EXPECT_TRUE(fs::is_regular_file(file("scratch/data.h5")));
  }
}

TEST_F(Outputs, WithTooLongANameAreRefusedInWords) {
  const ProgramResult result = mac("generate @/study.toml -o @/" + std::string(300, 'a') + ".h5");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("cannot be written: File name too long"), std::string::npos) << result.output;
}

TEST_F(Outputs, InFoldersThatCannotBeMadeAreNamed) {
  generate();
  ASSERT_EQ(mac("rollout markov --data @/data.h5 -o @/markov.h5").exit_code, 0);
  for (const auto& [arguments, prefix, message] :
       {std::tuple{"evaluate @/markov.h5 --figures @/data.h5", "",
                   "data.h5: cannot be made: Not a directory"},
        {"run @/study.toml -o @/data.h5", "", "data.h5/models: cannot be made: Not a directory"},
        {"report --rollouts @/markov.h5 -o @/page.html", "TMPDIR=/none",
         "/none: is no folder for temporary"}}) {
    const ProgramResult result = mac(arguments, prefix);
    EXPECT_EQ(result.exit_code, 1) << arguments;
    EXPECT_NE(result.output.find(message), std::string::npos) << result.output;
  }
  EXPECT_EQ(mac("info @/data.h5 --json ''").exit_code, 2);
}

TEST_F(Outputs, OnAFullStandardOutputEndWithOne) {
  generate();
  for (const char* arguments : {"info @/data.h5", "info @/data.h5 --json -", "--help", "--version"}) {
    const ProgramResult result = mac(std::string(arguments) + " > /dev/full");  // its 2>&1 comes after that
    EXPECT_EQ(result.exit_code, 1) << arguments;
  }
}

TEST_F(Outputs, OfAnHourSurviveALogThatCannotBeWritten) {
  write_bytes(file("study.toml"),
              study +
                  "[data.train]\ntrajectories = 40\nhorizon = 1\n[data.validation]\ntrajectories = 2\n"
                  "horizon = 0.1\n[training]\nsteps = 1000000\n[[models]]\nname = \"mac\"\nkind = \"mamba\"\n"
                  "d_model = 16\nblocks = 2\nd_state = 8\n");
  generate();
  // Progress speaks after two seconds; the training takes longer and is stopped then, politely.
  for (const char* log : {"/dev/full", "&-"}) {
    const ProgramResult result = test::run_command(fmt::format(
        "timeout --preserve-status -s INT 3 {} train {} --data {} --threads 1 --resume -o {} 2>{}",
        MAC_PROGRAM, file("study.toml"), file("data.h5"), file("net.safetensors"), log));
    EXPECT_EQ(result.exit_code, 130) << log;
  }
}

TEST_F(Outputs, AreNotMixedWithMessagesWhenStandardErrorIsClosed) {
  generate();
  const std::string closed =
      fmt::format("{} generate {} -o {} 2>&- 1>&- 0<&-", MAC_PROGRAM, file("study.toml"), file("again.h5"));
  EXPECT_EQ(test::run_command(closed).exit_code, 0);
  EXPECT_EQ(read_bytes(file("again.h5")), read_bytes(file("data.h5")));
}

}  // namespace
}  // namespace mac
