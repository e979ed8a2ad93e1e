// The n-th system call on a file goes wrong, for every n: a command ends with success and the right bytes, or
// with a failure, one sentence, and what was there before. Nothing in between, nothing silent.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/command_line.hpp"

namespace mac {
namespace {

namespace fs = std::filesystem;
using test::CommandLine;
using test::ProgramResult;
using test::read_bytes;
using test::write_bytes;

struct Fault {
  const char *call, *how;
  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.call << ' ' << fault.how; }
};

struct Command {
  const char *name, *arguments, *output;  // in the folder out
};

// Small enough that a command makes some dozens of calls.
const std::string tiny_study =
    "[system]\nname = \"burgers\"\ngrid = 32\n[data]\ndt = 1e-3\nstride = 20\n"
    "[data.train]\ntrajectories = 2\nhorizon = 0.1\n[data.test]\ntrajectories = 2\nhorizon = 0.1\n"
    "[[models]]\nname = \"mac\"\nkind = \"mamba\"\nd_model = 4\nblocks = 1\nd_state = 2\n"
    "[training]\nsteps = 2\nbatch = 2\nselect = \"last\"\n";

class FaultyFiles : public CommandLine, public ::testing::WithParamInterface<Fault> {
 protected:
  FaultyFiles() {
    write_bytes(file("study.toml"), tiny_study);
    EXPECT_EQ(mac("generate @/study.toml -o @/data.h5 --quiet").exit_code, 0);
    EXPECT_EQ(mac("train @/study.toml --data @/data.h5 -o @/mac.safetensors --quiet").exit_code, 0);
    EXPECT_EQ(mac("rollout markov --data @/data.h5 -o @/markov.h5 --quiet").exit_code, 0);
  }

  /// The command with the n-th call gone wrong; nothing where it makes fewer.
  std::optional<ProgramResult> run(const Command& command, const Fault& fault, int n) {
    fs::remove_all(file("out"));
    fs::create_directory(file("out"));
    fs::remove(file("mark"));
    const std::string under = std::string(fault.call) == "read" ? folder_.path().string() : file("out");
    ProgramResult result =
        mac(command.arguments,
            fmt::format("LD_PRELOAD={} MAC_FAIL_CALL={} MAC_FAIL_HOW={} MAC_FAIL_NUMBER={} MAC_FAIL_UNDER={} "
                        "MAC_FAIL_MARK={}",
                        MAC_FAIL_LIBRARY, fault.call, fault.how, n, under, file("mark")));
    if (!fs::exists(file("mark"))) return std::nullopt;
    return result;
  }
};

constexpr Command commands[] = {
    {"generate", "generate @/study.toml -o @/out/data.h5 --quiet --threads 1", "out/data.h5"},
    {"train", "train @/study.toml --data @/data.h5 -o @/out/mac.safetensors --quiet --threads 1",
     "out/mac.safetensors"},
    {"rollout", "rollout @/mac.safetensors --data @/data.h5 -o @/out/mac.h5 --quiet --threads 1",
     "out/mac.h5"},
    {"evaluate", "evaluate @/markov.h5 --json @/out/metrics.json", "out/metrics.json"},
    {"export", "export @/mac.safetensors -o @/out/step.onnx", "out/step.onnx"},
};

TEST_P(FaultyFiles, AreNeverTakenForWholeOnes) {
  const Fault fault = GetParam();
  for (const Command& command : commands) {
    fs::create_directory(file("out"));
    ASSERT_EQ(mac(command.arguments).exit_code, 0);
    const std::string right = read_bytes(file(command.output));
    fs::remove_all(file("out"));
    int n = 1;
    for (;; ++n) {
      const auto result = run(command, fault, n);
      if (!result) break;
      const std::string what = fmt::format("{}: call {} of {} gives {}:\n{}", command.name, n, fault.call,
                                           fault.how, result->output);
      if (result->exit_code == 0) {
        EXPECT_EQ(read_bytes(file(command.output)) == right, true) << what;
      } else {
        EXPECT_EQ(result->exit_code, 1) << what;
        EXPECT_TRUE(result->output.starts_with("mac: ") ||
                    result->output.find("\nmac: ") != std::string::npos)
            << what;
        EXPECT_FALSE(fs::exists(file(command.output))) << what;
        for (const auto& entry : fs::directory_iterator(file("out")))
          EXPECT_EQ(entry.path().string().find(".partial-"), std::string::npos) << what;
      }
    }
    EXPECT_GT(n, 1) << command.name << " makes no call of " << fault.call << " that could fail";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Calls, FaultyFiles,
    ::testing::Values(Fault{"write", "ENOSPC"}, Fault{"write", "EIO"}, Fault{"write", "EINTR"},
                      Fault{"write", "short"}, Fault{"fsync", "EIO"}, Fault{"rename", "EIO"},
                      Fault{"close", "EIO"}, Fault{"read", "EIO"}, Fault{"read", "short"}),
    [](const auto& fault) { return fmt::format("{}_{}", fault.param.call, fault.param.how); });

}  // namespace
}  // namespace mac
