// The n-th system call on a file goes wrong, for every n: a command ends with success and the right bytes, or
// with a failure, one sentence, and what was there before. Nothing in between, nothing silent. Each test prints
// its row of the table: for every command how often it failed as it should, and how often it got over it.
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
using test::run_command;
using test::write_bytes;

struct Fault {
  const char *call, *how;
  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.call << ' ' << fault.how; }
};

/// What a failure leaves of the output: what was there before; or what had been made until then, each file whole.
enum class Leaves { what_was_there, what_was_made };

struct Command {
  const char *name, *arguments, *output;  // in the folder out
  Leaves leaves = Leaves::what_was_there;
  int every = 1;                       // so many calls apart, where there are many
  const char* before = "an old file";  // in the output's place; null: nothing
};

// Small enough that a command makes some dozens of calls.
const std::string tiny_study =
    "[system]\nname = \"burgers\"\ngrid = 32\n[data]\ndt = 1e-3\nstride = 20\n"
    "[data.train]\ntrajectories = 2\nhorizon = 0.1\n[data.test]\ntrajectories = 2\nhorizon = 0.1\n"
    "[[models]]\nname = \"mac\"\nkind = \"mamba\"\nd_model = 4\nblocks = 1\nd_state = 2\n"
    "[training]\nsteps = 2\nbatch = 2\nselect = \"last\"\n";

constexpr Command commands[] = {
    {"generate", "generate @/study.toml -o @/out/data.h5 --quiet --threads 1", "out/data.h5"},
    {"train", "train @/study.toml --data @/data.h5 -o @/out/mac.safetensors --quiet --threads 1",
     "out/mac.safetensors"},
    {"baseline", "train @/kernel.toml --data @/data.h5 -o @/out/kernel.h5 --quiet --threads 1",
     "out/kernel.h5"},
    {"rollout", "rollout @/mac.safetensors --data @/data.h5 -o @/out/mac.h5 --quiet --threads 1",
     "out/mac.h5"},
    {"predict", "predict @/mac.safetensors --input @/data.h5 -o @/out/mac.h5 --quiet --threads 1",
     "out/mac.h5"},
    {"evaluate", "evaluate @/markov.h5 --json @/out/metrics.json", "out/metrics.json"},
    {"export", "export @/mac.safetensors -o @/out/step.onnx", "out/step.onnx"},
    {"statistics", "evaluate @/markov.h5 --statistics --json @/out/metrics.json", "out/metrics.json"},
    {"ensemble", "ensemble @/mac.safetensors @/mac2.safetensors -o @/out/both.safetensors",
     "out/both.safetensors"},
    {"import", "import @/runs.csv --trajectory run --parameters nu -o @/out/data.h5 --quiet", "out/data.h5"},
    {"new-system", "new-system mine --c -o @/out/mine", "out/mine/mine.c", Leaves::what_was_there, 1,
     nullptr},
    {"info", "info @/mac.safetensors --json @/out/info.json", "out/info.json"},
    {"diagnose", "diagnose @/study.toml --only spectrum --json @/out/found.json --quiet --threads 1",
     "out/found.json"},
    {"memory", "diagnose memory @/mac.safetensors --data @/data.h5 -o @/out/memory.pdf --threads 1",
     "out/memory.pdf"},
    {"report", "report --rollouts @/markov.h5 -o @/out/report.html --quiet --threads 1", "out/report.html"},
    {"verify", "verify @/mac.safetensors @/data.h5 --json @/out/found.json", "out/found.json",
     Leaves::what_was_made},
};
constexpr Command long_commands[] = {
    {"run", "run @/study.toml -o @/out --quiet --threads 1", "out/metrics.json", Leaves::what_was_made},
    {"sweep",
     "sweep @/study.toml --over training.noise=0,0.1 --over training.batch=1,2 --random 2 -o @/out --quiet "
     "--threads 1",
     "out/sweep.csv", Leaves::what_was_made, 7},
};

class Faults : public CommandLine {
 protected:
  Faults() {
    write_bytes(file("study.toml"), tiny_study);
    EXPECT_EQ(mac("generate @/study.toml -o @/data.h5 --quiet").exit_code, 0);
    EXPECT_EQ(mac("train @/study.toml --data @/data.h5 -o @/mac.safetensors --quiet").exit_code, 0);
    EXPECT_EQ(mac("train @/study.toml --data @/data.h5 --seed 2 -o @/mac2.safetensors --quiet").exit_code, 0);
    EXPECT_EQ(mac("rollout markov --data @/data.h5 -o @/markov.h5 --quiet").exit_code, 0);
    write_bytes(file("kernel.toml"), tiny_study.substr(0, tiny_study.find("[[models]]")) +
                                         "[[models]]\nname = \"kernel\"\nkind = \"linear_memory\"\n");
    std::string rows = "run,t,x,nu\n";
    for (int run = 0; run < 10; ++run)
      for (int n = 0; n < 20; ++n)
        rows += fmt::format("{},{},{},{}\n", run, 0.1 * n, (run + 1) * 0.01 * n * n, 0.5 + 0.1 * run);
    write_bytes(file("runs.csv"), rows);
  }

  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizers must be loaded first, and bring their own calls";
#endif
  }

  /// The folder out as it is before the command.
  void prepare_out(const Command& command) const {
    fs::remove_all(file("out"));
    fs::create_directory(file("out"));
    if (command.before) write_bytes(file(command.output), command.before);
  }

  bool is_as_before(const Command& command) const {
    const std::string output = file(command.output);
    return command.before ? read_bytes(output) == command.before : !fs::exists(output);
  }

  std::string right_output(const Command& command) const {
    prepare_out(command);
    const ProgramResult result = mac(command.arguments);
    EXPECT_EQ(result.exit_code, 0) << command.name << "\n" << result.output;
    EXPECT_FALSE(is_as_before(command)) << command.name;
    return read_bytes(file(command.output));
  }

  /// The environment in which the n-th call goes wrong.
  std::string with(const Fault& fault, int n, const std::string& under) const {
    return fmt::format(
        "LD_PRELOAD={} MAC_FAIL_CALL={} MAC_FAIL_HOW={} MAC_FAIL_NUMBER={} MAC_FAIL_UNDER={} "
        "MAC_FAIL_MARK={}",
        MAC_FAIL_LIBRARY, fault.call, fault.how, n, under, file("mark"));
  }

  /// The command with the n-th call gone wrong; nothing where it makes fewer.
  std::optional<ProgramResult> run(const Command& command, const Fault& fault, int n) {
    prepare_out(command);
    fs::remove(file("mark"));
    const std::string under = std::string(fault.call) == "read" ? folder_.path().string() : file("out");
    ProgramResult result = mac(command.arguments, with(fault, n, under));
    if (!fs::exists(file("mark"))) return std::nullopt;
    return result;
  }

  /// Whether it got over it; else it must have failed as a failure should.
  bool is_sound(const Command& command, const ProgramResult& result, const std::string& right,
                const std::string& what) const {
    if (result.exit_code == 0) {
      EXPECT_EQ(read_bytes(file(command.output)) == right, true) << what;
      return true;
    }
    EXPECT_EQ(result.exit_code, 1) << what;
    EXPECT_TRUE(result.output.starts_with("mac: ") || result.output.find("\nmac: ") != std::string::npos)
        << what;
    EXPECT_TRUE(command.leaves == Leaves::what_was_made || is_as_before(command)) << what;
    for (const auto& entry : fs::recursive_directory_iterator(file("out"))) {
      const std::string name = entry.path().string();
      EXPECT_EQ(name.find(".partial-"), std::string::npos) << what;
      EXPECT_FALSE(name.ends_with(".lock")) << what;
    }
    return false;
  }

  /// Every call, or the first and then ever fewer: `thinned` of n calls are left out behind the n-th.
  std::string row(const Command& command, const Fault& fault, double thinned = 0) {
    const std::string right = right_output(command);
    int failed = 0, succeeded = 0;
    for (int n = 1;; n += command.every + static_cast<int>(thinned * n)) {
      const auto result = run(command, fault, n);
      if (!result) break;
      const std::string what = fmt::format("{}: call {} of {} gives {}:\n{}", command.name, n, fault.call,
                                           fault.how, result->output);
      (is_sound(command, *result, right, what) ? succeeded : failed) += 1;
    }
    const bool reads_nothing = fault.call == std::string("read") && command.name == std::string("new-system");
    if (command.leaves == Leaves::what_was_there && !reads_nothing) {
      EXPECT_GT(failed + succeeded, 0) << command.name << " makes no call of " << fault.call;
    }
    return fmt::format("  {} {}+{}", command.name, failed, succeeded);
  }

  static void print(const std::string& fault, const std::string& row) {
    fmt::print("{:<14} failed+got over it:{}\n", fault, row);
  }
};

class FaultyFiles : public Faults, public ::testing::WithParamInterface<Fault> {};

// Commands read their inputs block by block, hundreds of times; LongFaultyRuns has every one of these calls.
TEST_P(FaultyFiles, AreNeverTakenForWholeOnes) {
  const double thinned = GetParam().call == std::string("read") ? 0.15 : 0;
  std::string cells;
  for (const Command& command : commands) cells += row(command, GetParam(), thinned);
  print(fmt::format("{} {}", GetParam().call, GetParam().how), cells);
}

constexpr Fault file_faults[] = {
    {"write", "ENOSPC"}, {"write", "EDQUOT"}, {"write", "EIO"}, {"write", "EINTR"}, {"write", "short"},
    {"fsync", "EIO"},    {"rename", "EIO"},   {"close", "EIO"}, {"read", "EIO"},    {"read", "short"}};
const auto fault_name = [](const auto& fault) {
  return fmt::format("{}_{}", fault.param.call, fault.param.how);
};
INSTANTIATE_TEST_SUITE_P(Calls, FaultyFiles, ::testing::ValuesIn(file_faults), fault_name);

class LongFaultyRuns : public FaultyFiles {};
TEST_P(LongFaultyRuns, AreNeverTakenForWholeOnes) {
  const bool reads = GetParam().call == std::string("read");
  std::string cells;
  if (reads)
    for (const Command& command : commands) cells += row(command, GetParam());
  for (const Command& command : long_commands)  // a sweep reads thousands of times what run reads
    cells += row(command, GetParam(), reads && command.every > 1 ? 0.02 : 0);
  print(fmt::format("{} {}", GetParam().call, GetParam().how), cells);
}
INSTANTIATE_TEST_SUITE_P(Calls, LongFaultyRuns, ::testing::ValuesIn(file_faults), fault_name);

// HDF5 itself ends the program without memory in some places, by a signal or, with a sentence, by 255, and CUDA's runtime
// does before the program begins: loud, with what was there before under the output's name, and the next command tidies
// up. Memory may also fail when the output has its name already, for what is printed about it: then it is whole, and a
// trained network is not thrown away for want of a sentence.
TEST_F(Faults, OfMemoryAreNeverSilent) {
  std::string cells;
  for (const Command& command : commands) {
    if (command.leaves == Leaves::what_was_made) continue;  // reads only
    const std::string right = right_output(command);
    int failed = 0, succeeded = 0, ended = 0;
    for (int n = 1;; n += 1 + n / 12) {
      const auto result = run(command, {"malloc", "ENOMEM"}, n);
      if (!result) break;
      const std::string what = fmt::format("{}: allocation {} fails:\n{}", command.name, n, result->output);
      if (is_as_before(command)) {
        EXPECT_NE(result->exit_code, 0) << what;
      } else {
        EXPECT_TRUE(read_bytes(file(command.output)) == right) << what;
      }
      if (result->exit_code >= 128) {
        ++ended;
        EXPECT_EQ(result->output.find("terminate called"), std::string::npos) << what;
        if (result->exit_code == 255) {
          EXPECT_NE(result->output.find("mac: a library ended the program"), std::string::npos) << what;
        }
        continue;
      }
      if (result->exit_code != 0) {
        EXPECT_NE(result->output.find("mac: "), std::string::npos) << what;
      }
      (result->exit_code == 0 ? succeeded : failed) += 1;
    }
    EXPECT_GT(failed, 3 * ended) << command.name;
    cells += fmt::format("  {} {}+{}, ended by a library {}", command.name, failed, succeeded, ended);
  }
  print("malloc ENOMEM", cells);
}

TEST_F(Faults, OfALimitOnTheSizeOfFilesAreFailuresLikeOthers) {
  std::string cells;
  for (const Command& command : commands) {
    const std::string right = right_output(command);
    int failed = 0;
    for (int blocks = 0;; ++blocks) {
      prepare_out(command);
      const ProgramResult result = mac(command.arguments, fmt::format("ulimit -f {};", blocks));
      const std::string what = fmt::format("{} within {} blocks:\n{}", command.name, blocks, result.output);
      if (is_sound(command, result, right, what)) break;
      ++failed;
    }
    cells += fmt::format("  {} {}+1", command.name, failed);
  }
  print("RLIMIT_FSIZE", cells);
}

TEST_F(Faults, OfAQuotaAreSaidToBe) {
  const auto result =
      run(commands[0], {"write", "EDQUOT"}, 2);  // the first write is the lock's, which does without
  EXPECT_NE(result.value().output.find("Disk quota exceeded"), std::string::npos) << result->output;
}

/// Programs in other languages around the runtime.
class FaultsAround : public Faults {
 protected:
  FaultsAround() { write_bytes(file("input"), std::string(12 * sizeof(double), '\0')); }

  static std::string python(const std::string& text) {
    return "PYTHONPATH=" MAC_BUILD_FOLDER "/python /usr/bin/python3 -c 'import mac, sys; " + text + "' ";
  }
  static bool has_python() { return run_command(python("") + "2>&1").exit_code == 0; }

  /// What steps the network and writes the closures.
  std::vector<std::pair<std::string, std::string>> steppers() const {
    const std::string arguments =
        fmt::format("{} {} {} 2 1", file("mac.safetensors"), file("input"), file("closures"));
    std::vector<std::pair<std::string, std::string>> programs{
        {"C", MAC_BUILD_FOLDER "/tests/programs/steps_c " + arguments}};
    if (const std::string fortran = MAC_BUILD_FOLDER "/tests/programs/steps_fortran"; fs::exists(fortran))
      programs.emplace_back("Fortran", fortran + " " + arguments + " double");
    return programs;
  }
};

/// A network that cannot be read to its end.
TEST_F(FaultsAround, TheRuntimeOfReadingReachTheProgram) {
  auto programs = steppers();
  if (has_python())
    programs.emplace_back("Python", python("mac.load(sys.argv[1])") + file("mac.safetensors"));
  std::string cells;
  for (const auto& [language, program] : programs) {
    int failed = 0, succeeded = 0;
    for (int n = 1;; ++n) {
      fs::remove(file("mark"));
      const ProgramResult result =
          run_command(with({"read", "EIO"}, n, file("mac.safetensors")) + " " + program + " 2>&1");
      if (!fs::exists(file("mark"))) {
        EXPECT_EQ(result.exit_code, 0) << language << "\n" << result.output;
        break;
      }
      (result.exit_code == 0 ? succeeded : failed) += 1;
      EXPECT_NE(result.exit_code, 0) << language << ", read " << n << "\n" << result.output;
      EXPECT_LT(result.exit_code, 128) << language << ", read " << n << "\n" << result.output;
      EXPECT_NE(result.output.find("mac.safetensors: cannot be read"), std::string::npos)
          << language << ", read " << n << "\n"
          << result.output;
    }
    EXPECT_GT(failed, 0) << language;
    cells += fmt::format("  {} {}+{}", language, failed, succeeded);
  }
  print("read EIO", cells);
}

TEST_F(FaultsAround, TheRuntimeOfMemoryAreNeverSilent) {
  std::string cells;
  for (const auto& [language, program] : steppers()) {
    EXPECT_EQ(run_command(program + " 2>&1").exit_code, 0);
    const std::string right = read_bytes(file("closures"));
    int failed = 0, succeeded = 0;
    for (int n = 1;; n += 1 + n / 6) {
      fs::remove(file("mark"));
      fs::remove(file("closures"));
      const ProgramResult result = run_command(with({"malloc", "ENOMEM"}, n, "/") + " " + program + " 2>&1");
      if (!fs::exists(file("mark"))) break;
      const std::string what = fmt::format("{}, allocation {}: {}", language, n, result.output);
      EXPECT_LT(result.exit_code, 128) << what;
      if (result.exit_code == 0) {
        EXPECT_TRUE(read_bytes(file("closures")) == right) << what;
      } else if (result.exit_code == 1) {  // others are the program's own
        EXPECT_FALSE(result.output.empty()) << what;
      }
      (result.exit_code == 0 ? succeeded : failed) += 1;
    }
    EXPECT_GT(failed, 3) << language;
    cells += fmt::format("  {} {}+{}", language, failed, succeeded);
  }
  print("malloc ENOMEM", cells);
}

/// From where the package is there: what the interpreter allocates before is its own affair. HDF5 ends this process, too.
TEST_F(FaultsAround, ThePackageOfMemoryAreNeverSilent) {
  if (!has_python()) GTEST_SKIP() << "the Python package is not built";
  const std::string steps =
      "import ctypes, numpy; ctypes.CDLL(None).mac_fail_from_here_on(); closure = mac.load(sys.argv[1]); "
      "data = mac.read_data(sys.argv[2]); numpy.save(sys.argv[3], [closure.step(y) for y in "
      "data[\"test\"].resolved[0]])";
  const std::string files =
      fmt::format("{} {} {} 2>&1", file("mac.safetensors"), file("data.h5"), file("closures.npy"));
  const auto python_with = [&](const std::string& variables) {
    fs::remove(file("mark"));
    fs::remove(file("closures.npy"));
    return run_command(variables + " MAC_FAIL_LATER=1 " + python(steps) + files);
  };
  const ProgramResult sound = python_with(with({"none", "ENOMEM"}, 1, "/"));
  ASSERT_EQ(sound.exit_code, 0) << sound.output;
  const std::string right = read_bytes(file("closures.npy"));
  int failed = 0, succeeded = 0, ended = 0;
  for (int n = 1;; n += 1 + n / 6) {
    const ProgramResult result = python_with(with({"malloc", "ENOMEM"}, n, "/"));
    if (!fs::exists(file("mark"))) break;
    const std::string what = fmt::format("allocation {}: {}", n, result.output);
    if (result.exit_code >= 128) {
      ++ended;
      EXPECT_FALSE(fs::exists(file("closures.npy"))) << what;
      continue;
    }
    if (result.exit_code == 0) {
      EXPECT_TRUE(read_bytes(file("closures.npy")) == right) << what;
    } else {
      EXPECT_NE(result.output.find("Error"), std::string::npos) << what;
    }
    (result.exit_code == 0 ? succeeded : failed) += 1;
  }
  EXPECT_GT(failed, 3 * ended);
  print("malloc ENOMEM", fmt::format("  Python {}+{}, ended by a library {}", failed, succeeded, ended));
}

TEST_F(FaultsAround, ThePackageOfWritingAreExceptions) {
  if (!has_python()) GTEST_SKIP() << "the Python package is not built";
  const std::string program = python("mac.generate(sys.argv[1], sys.argv[2], threads=1)") +
                              file("study.toml") + " " + file("out/data.h5") + " 2>&1";
  int failed = 0;
  for (int n = 2;; n += n) {  // the first write is the lock's, which does without
    fs::remove_all(file("out"));
    fs::create_directory(file("out"));
    fs::remove(file("mark"));
    const ProgramResult result = run_command(with({"write", "ENOSPC"}, n, file("out")) + " " + program);
    if (!fs::exists(file("mark"))) break;
    ++failed;
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_NE(result.output.find("mac.Error: "), std::string::npos) << result.output;
    EXPECT_TRUE(fs::is_empty(file("out"))) << "write " << n;
  }
  EXPECT_GT(failed, 2);
  print("write ENOSPC", fmt::format("  Python {}+0", failed));
}

}  // namespace
}  // namespace mac
