// The program as a user meets it: help, exit codes, messages, interrupts, a full disk.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>

#include "cli/command_line.hpp"
#include "support/process.hpp"

namespace mac {
namespace {

using test::CommandLine;
using test::Misuse;
using test::Process;
using test::ProgramResult;
using test::read_bytes;
using test::run_program;
using test::study;
using test::write_bytes;

TEST_F(CommandLine, GoesFromAnExperimentToATable) {
  generate();
  ASSERT_EQ(run_program("rollout markov --data " + file("data.h5") + " -o " + file("markov.h5")).exit_code,
            0);
  ASSERT_EQ(run_program("rollout exact --hold linear --data " + file("data.h5") + " -o " + file("exact.h5"))
                .exit_code,
            0);
  const ProgramResult table =
      run_program("evaluate " + file("markov.h5") + " " + file("exact.h5") + " --json " + file("m.json"));
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_NE(table.output.find("burgers, test, resolved [0,0.1]"), std::string::npos) << table.output;
  const auto json = nlohmann::json::parse(read_bytes(file("m.json")));
  const auto error = [&](const char* model) {
    return json["models"][model]["test"]["intervals"]["[0,0.2]"]["resolved"]["phi3"]["mean"].get<double>();
  };
  EXPECT_GT(error("markov"), 100 * error("exact_linear"));
}

TEST_F(CommandLine, PrintsTheTablesOfResolvedVariablesOnceForAWholeStudy) {
  const ProgramResult result = mac("run @/study.toml -o @/run");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  std::vector<std::string> titles;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("burgers, ")) titles.push_back(line.substr(0, line.rfind(':')));
  EXPECT_EQ(titles, (std::vector<std::string>{"burgers, test, resolved [0,0.1]",
                                              "burgers, test, resolved [0,0.2]", "burgers, test"}))
      << "those of closures are for `mac evaluate`\n"
      << result.output;
}

TEST_F(CommandLine, PrintsOnlyJsonWhenAskedForItOnStandardOutput) {
  generate();
  run_program("rollout markov --data " + file("data.h5") + " -o " + file("markov.h5"));
  const ProgramResult result = run_program("evaluate " + file("markov.h5") + " --json -");
  EXPECT_TRUE(nlohmann::json::accept(result.output)) << result.output;
}

TEST_F(CommandLine, ComparesBesideJsonOnStandardOutput) {
  generate();
  run_program("rollout markov --data " + file("data.h5") + " -o " + file("markov.h5"));
  run_program("evaluate " + file("markov.h5") + " --json " + file("stored.json"));
  const std::string to_stdout = " --against " + file("stored.json") + " --json -";
  const ProgramResult same = test::run_command(std::string(MAC_PROGRAM) + " evaluate " + file("markov.h5") +
                                               to_stdout + " 2> " + file("table"));
  EXPECT_EQ(same.exit_code, 0);
  EXPECT_TRUE(nlohmann::json::accept(same.output)) << same.output;
  EXPECT_NE(read_bytes(file("table")).find("within"), std::string::npos);
  std::string stored = read_bytes(file("stored.json"));
  const std::size_t mean = stored.find("\"mean\":") + 7;
  write_bytes(file("stored.json"), stored.insert(mean, "9"));
  EXPECT_EQ(run_program("evaluate " + file("markov.h5") + to_stdout).exit_code, 1);
}

TEST_F(CommandLine, CountsNoRolloutTwice) {
  generate();
  ASSERT_EQ(mac("rollout markov --data @/data.h5 -o @/markov.h5").exit_code, 0);
  const ProgramResult twice = mac("evaluate @/markov.h5 @/./markov.h5");
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_NE(twice.output.find("markov.h5: is given twice, also as"), std::string::npos) << twice.output;
}

TEST_F(CommandLine, HasHelpWithAnExampleForEveryCommand) {
  const ProgramResult help = run_program("--help");
  EXPECT_EQ(help.exit_code, 0);
  std::istringstream lines(help.output.substr(help.output.find("Subcommands:")));
  std::size_t commands = 0;
  for (std::string line, command; std::getline(lines, line) && !line.empty();) {
    if (!line.starts_with("  ")) continue;
    std::istringstream(line) >> command;
    ++commands;
    const ProgramResult own = run_program(command + " --help");
    EXPECT_EQ(own.exit_code, 0) << command;
    EXPECT_NE(own.output.find("  mac " + command), std::string::npos) << command << " has an example";
    EXPECT_NE(own.output.find("--threads"), std::string::npos) << command;
    EXPECT_NE(own.output.find("--quiet"), std::string::npos) << command;
  }
  EXPECT_EQ(commands, 17u);
}

TEST_F(CommandLine, HasEveryOptionInItsReferencePage) {
  const std::string page = read_bytes(MAC_SOURCE_FOLDER "/docs/cli.md");
  const std::regex option("\n  (?:-[a-z],)?(--[a-z-]+)");
  for (const char* command :
       {"generate", "import", "train", "rollout", "evaluate", "report", "run", "sweep", "predict", "export",
        "diagnose", "diagnose memory", "info", "new-system", "verify", "bench"}) {
    const std::string help = mac(std::string(command) + " --help").output;
    for (std::sregex_iterator found(help.begin(), help.end(), option), end; found != end; ++found) {
      EXPECT_NE(page.find((*found)[1].str()), std::string::npos) << command << " " << (*found)[1];
    }
  }
}

TEST_F(CommandLine, HasEverySettingOfAnExperimentInItsReferencePage) {
  const std::string page = read_bytes(MAC_SOURCE_FOLDER "/docs/experiments.md");
  const std::string settings = mac("info --settings").output;
  EXPECT_NE(settings.find("| `max_lr` |"), std::string::npos);
  EXPECT_NE(page.find(settings), std::string::npos)
      << "docs/experiments.md: put the output of mac info --settings between the two comments";
}

TEST_F(CommandLine, TellsVersionCommitAndFeatures) {
  const ProgramResult result = run_program("--version");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("commit"), std::string::npos);
  EXPECT_NE(result.output.find("HDF5"), std::string::npos);
}

TEST_F(CommandLine, ExplainsEveryMisuse) {
  generate();
  write_bytes(file("bad.toml"), "[system]\nname = \"burger\"\n");
  write_bytes(file("text.h5"), "no HDF5");
  const Misuse misuses[] = {
      {"", 2, "A subcommand is required"},
      {"generat x", 2, "unknown command \"generat\"; did you mean \"generate\"?"},
      {"generate", 2, "experiment is required"},
      {"generate @/study.toml", 2, "--output is required"},
      {"generate @/bad.toml -o @/x.h5", 2, "bad.toml:2: system.name: is \"burger\""},
      {"generate @/study.toml -o @/none/x.h5", 1, "none/x.h5: cannot be written: No such file or directory"},
      {"generate @/study.toml -o @", 2, "is a folder, expected the name of a file"},
      {"generate @/study.toml -o @/study.toml/x.h5", 1, "x.h5: cannot be written: Not a directory"},
      {"generate @/study.toml -o @/x.h5 --threads 0", 2, "--threads"},
      {"generate @/study.toml -o @/x.h5 --thread 1", 2, "--thread"},
      {"rollout markov --data @/text.h5 -o @/x.h5", 1, "text.h5: is not an HDF5 file"},
      {"rollout markov --data @/data.h5 --split ood -o @/x.h5", 2, "has no split \"ood\", only test"},
      {"rollout exact --hold cubic --data @/data.h5 -o @/x.h5", 2, "unknown hold \"cubic\""},
      {"rollout exact --hold stage --data @/data.h5 -o @/x.h5", 2, "its hold is zero or linear"},
      {"rollout exact --target median --data @/data.h5 -o @/x.h5", 2, "unknown closure target \"median\""},
      {"rollout markov --data @/data.h5 --to 0 -o @/x.h5", 2, "--to"},
      {"rollout markov --data @/data.h5 --to 1e300 -o @/x.h5", 2, "more than a billion steps"},
      {"rollout markov --data @/data.h5 --history 9 -o @/x.h5", 2,
       "the history of 9 is longer than split test"},
      {"rollout markov --target mean --data @/data.h5 -o @/x.h5", 2, "only exact has a --target"},
      {"rollout markov --hold linear --data @/data.h5 -o @/x.h5", 2, "--hold does not apply"},
      {"rollout markov --data @/data.h5 --history nan -o @/x.h5", 2, "nan is not a finite number from 0 on"},
      {"rollout markov --data @/data.h5 --to inf -o @/x.h5", 2, "inf is not a finite number above 0"},
      {"train @/study.toml --data @/data.h5 --seed -1 -o @/x", 2, "-1 is not a finite number from 0 on"},
      {"bench train --rollout-steps 3", 2, "--rollout-steps: applies to cuda only"},
      {"bench train --autoregressive", 2, "--autoregressive requires --rollout-steps"},
      {"bench step --d-model 0", 2, "--d-model: Value 0 not in range"},
      {"bench step --kind gru --d-state 8", 2, "d_state is 8: a network of kind gru has none"},
      {"bench step --models 3", 2, "--models: applies to train only"},
      {"bench step --length 3", 2, "--length: applies to train only"},
      {"bench step --experiment x.toml", 2, "--experiment: applies to cuda only"},
      {"bench step --device cuda --experiment " MAC_EXPERIMENTS "/equations/lorenz96.toml", 2,
       "its system has 8 resolved variables and 8 closures, the network of burgers reads 6 and gives 6"},
      {"bench train --device cuda --precision float64 --models 2", 2, "--models: applies to float32 only"},
      {"bench step --device cuda --precision float64", 2, "a CUDA device rolls out in float32"},
      {"bench step --model @/text.h5", 1, "text.h5"},
      {"bench step --model @/x --kind gru", 2, "--kind excludes --model"},
      {"bench train --precision tf32", 2, "--precision tf32: applies to --device cuda only"},
      {"train @/x --data @/y -o @/z --precision tf32", 2, "--precision tf32: applies to --device cuda only"},
      {"bench step --model @/x --device cuda", 2, "--model: applies to cpu only"},
      {"diagnose memory @/x --data @/data.h5 --kernel @/none.h5", 2, "--kernel requires --output"},
      {"diagnose memory @/x --data @/data.h5 --threshold nan", 2, "--threshold"},
      {"diagnose @/study.toml memory @/x --data @/data.h5", 2, "memory excludes experiment"},
      {"diagnose --split test memory @/x --data @/data.h5", 2, "memory excludes --split"},
      {"info @/x --card @/y.json --json -", 2, "--json excludes --card"},
      {"evaluate", 2, "files is required"},
      {"evaluate @/data.h5", 1, "is a data file, expected a rollout file"},
      {"evaluate @/x.h5 --format word", 2, "--format"},
      {"info @/text.h5", 1, "text.h5"},
      {"info", 2, "file is required"},
      {"info @/text.h5 --settings", 2, "file excludes --settings"},
  };
  for (const Misuse& misuse : misuses) {
    const ProgramResult result = mac(misuse.arguments);
    EXPECT_EQ(result.exit_code, misuse.exit_code) << misuse.arguments << "\n" << result.output;
    EXPECT_NE(result.output.find(misuse.message), std::string::npos)
        << misuse.arguments << "\n  expected: " << misuse.message << "\n  found: " << result.output;
    EXPECT_LT(result.output.size(), 400u) << misuse.arguments << "\n" << result.output;
  }
  EXPECT_EQ(folder_.count(), 4u) << "no misuse left a file behind";
}

TEST_F(CommandLine, SaysWhenThereIsNoGpu) {
  write_bytes(file("trained.toml"),
              study +
                  "[data.train]\ntrajectories = 3\nhorizon = 0.2\n[[models]]\nname = "
                  "\"mac\"\nkind = \"gru\"\nd_model = 3\nblocks = 1\n[training]\nselect = \"last\"\n");
  ASSERT_EQ(mac("generate @/trained.toml -o @/data.h5").exit_code, 0);
  for (const char* arguments : {"train @/trained.toml --data @/data.h5 -o @/mac.safetensors --device cuda",
                                "run @/trained.toml -o @/run --device cuda", "bench train --device cuda",
                                "bench step --device cuda"}) {
    const ProgramResult result = mac(arguments, "CUDA_VISIBLE_DEVICES=");
    EXPECT_EQ(result.exit_code, 1) << arguments << "\n" << result.output;
    EXPECT_NE(result.output.find("CUDA"), std::string::npos) << result.output;
  }
  EXPECT_FALSE(std::filesystem::exists(file("mac.safetensors")));
  EXPECT_FALSE(std::filesystem::exists(file("run"))) << "before anything is made";
}

TEST_F(CommandLine, LeavesTheOldFileAndNoHalfFileWhenTheDiskIsFull) {
  generate();
  const std::string before = read_bytes(file("data.h5"));
  std::string larger = study;
  larger.replace(larger.find("trajectories = 3"), 16, "trajectories = 3000");
  write_bytes(file("larger.toml"), larger);
  // A limit on the size of a file is a full disk to the program; the signal is ignored as on a real one.
  for (const char* threads : {"1", "4"}) {
    const ProgramResult result =
        mac(std::string("generate @/larger.toml -o @/data.h5 --quiet --threads ") + threads,
            "trap '' XFSZ; ulimit -f 512;");
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.output.find("data.h5: "), std::string::npos) << result.output;
    EXPECT_NE(result.output.find("File too large"), std::string::npos) << result.output;
    EXPECT_EQ(result.output.find('\n'), result.output.size() - 1) << "one line\n" << result.output;
  }
  EXPECT_EQ(read_bytes(file("data.h5")), before);
  EXPECT_EQ(folder_.count(), 3u) << "the study, the larger study, the old data";
}

TEST_F(CommandLine, LeavesNoHalfFileWhenInterrupted) {
  std::string longer = study;
  longer.replace(longer.find("trajectories = 3"), 16, "trajectories = 1000000");
  write_bytes(file("longer.toml"), longer);
  // The first sends the signal to the process and to its group, the second twice in any case.
  for (const char* interrupting :
       {"timeout --preserve-status -s INT 1",
        R"(bash -c 'set -m; "$@" & sleep 1; kill -INT $!; sleep 0.01; kill -INT $!; wait $!' -)"}) {
    const ProgramResult result =
        run_program("generate " + file("longer.toml") + " -o " + file("data.h5"), interrupting);
    EXPECT_EQ(result.exit_code, 130) << interrupting << "\n" << result.output;
    EXPECT_EQ(folder_.count(), 2u) << interrupting << ": the two studies alone";
  }
}

TEST_F(CommandLine, GivesTheSameBytesInAnotherFolder) {
  for (const std::string name : {"here", "there"}) {
    std::filesystem::create_directory(file(name));
    std::filesystem::copy(file("study.toml"), file(name + "/" + name + ".toml"));
    mac("generate @/" + name + "/" + name + ".toml -o @/" + name + "/data.h5");
    mac("rollout markov --data @/" + name + "/data.h5 -o @/" + name + "/markov.h5");
  }
  EXPECT_EQ(read_bytes(file("here/data.h5")), read_bytes(file("there/data.h5")));
  EXPECT_EQ(read_bytes(file("here/markov.h5")), read_bytes(file("there/markov.h5")));
  EXPECT_FALSE(read_bytes(file("here/markov.h5")).empty());
}

TEST_F(CommandLine, EndsAtOnceWithASecondSignalOfEitherKind) {
  // A small pipe that nobody reads: the program waits in a write, where it sees no flag.
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_GE(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
  const Process process({"info", "--settings"}, ends[1]);
  char first;
  ASSERT_EQ(read(ends[0], &first, 1), 1);  // it has begun to write
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  process.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 128 + SIGTERM);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(CommandLine, DescribesADataFileAndARollout) {
  generate();
  run_program("rollout markov --data " + file("data.h5") + " -o " + file("markov.h5"));
  const ProgramResult data = run_program("info " + file("data.h5"));
  EXPECT_EQ(data.exit_code, 0);
  for (const char* part : {"burgers", "test", "phi1", "dt = 1e-3"})
    EXPECT_NE(data.output.find(part), std::string::npos) << part << "\n" << data.output;
  const ProgramResult rollout = run_program("info " + file("markov.h5") + " --json -");
  EXPECT_EQ(nlohmann::json::parse(rollout.output)["model"], "markov") << rollout.output;
}

}  // namespace
}  // namespace mac
