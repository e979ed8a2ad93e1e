// Input files that are missing, of another kind, damaged, or about to be overwritten.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "cli/command_line.hpp"

namespace mac {
namespace {

namespace fs = std::filesystem;
using test::CommandLine;
using test::Misuse;
using test::ProgramResult;
using test::read_bytes;
using test::study;
using test::write_bytes;

class InputFiles : public CommandLine {
 protected:
  InputFiles() {
    write_bytes(file("study.toml"),
                study +
                    "[data.train]\ntrajectories = 2\nhorizon = 0.1\n"
                    "[training]\nsteps = 1\nselect = \"last\"\n[[models]]\nname = \"mac\"\n"
                    "kind = \"mamba\"\nd_model = 4\nblocks = 1\nd_state = 2\n");
    generate();
    mac("train @/study.toml --data @/data.h5 -o @/net.safetensors");
    mac("rollout markov --data @/data.h5 -o @/markov.h5");
    mac("evaluate @/markov.h5 --json @/metrics.json");
  }
  void expect(const Misuse& misuse, const std::string& prefix = "") const {
    const ProgramResult result = mac(misuse.arguments, prefix);
    EXPECT_EQ(result.exit_code, misuse.exit_code) << misuse.arguments << "\n" << result.output;
    EXPECT_NE(result.output.find(misuse.message), std::string::npos)
        << misuse.arguments << "\n  expected: " << misuse.message << "\n  found: " << result.output;
  }
};

TEST_F(InputFiles, AreNeverOverwritten) {
  fs::create_symlink(file("data.h5"), file("symbolic.h5"));
  fs::create_hard_link(file("data.h5"), file("hard.h5"));
  const auto bytes = [&] {
    std::string all;
    for (const char* name : {"study.toml", "data.h5", "net.safetensors", "markov.h5", "metrics.json"})
      all += read_bytes(file(name));
    return all;
  };
  const std::string before = bytes();
  for (const char* arguments :
       {"generate @/study.toml -o @/study.toml", "run @/study.toml -o @/run --json @/study.toml",
        "train @/study.toml --data @/data.h5 -o @/data.h5", "rollout markov --data @/data.h5 -o @/data.h5",
        "rollout markov --data @/data.h5 -o @/./none/../data.h5",
        "rollout markov --data @/data.h5 -o @/symbolic.h5",
        "rollout markov --data @/symbolic.h5 -o @/data.h5", "rollout markov --data @/data.h5 -o @/hard.h5",
        "rollout markov --data @/data.h5 --from @/markov.h5 -o @/markov.h5",
        "rollout @/net.safetensors --data @/data.h5 -o @/net.safetensors",
        "predict @/net.safetensors --input @/data.h5 -o @/data.h5",
        "export @/net.safetensors -o @/net.safetensors", "evaluate @/markov.h5 --json @/markov.h5",
        "evaluate @/metrics.json --against @/metrics.json --json @/metrics.json",
        "report --rollouts @/markov.h5 -o @/markov.h5", "info @/data.h5 --json @/data.h5",
        "diagnose @/study.toml --json @/study.toml",
        "diagnose memory @/net.safetensors --data @/data.h5 -o @/data.h5",
        "diagnose memory @/net.safetensors --data @/data.h5 -o @/new --json @/new"})
    expect({arguments, 2, "would overwrite"});
  // In a folder, the output's name is that of the model.
  fs::rename(file("data.h5"), file("kernel.h5"));
  write_bytes(file("kernel.toml"),
              read_bytes(file("study.toml")) + "[[models]]\nname = \"kernel\"\nkind = \"linear_memory\"\n");
  expect({"train @/kernel.toml --model kernel --data @/kernel.h5 -o @/", 2, "would overwrite"});
  fs::rename(file("kernel.h5"), file("data.h5"));
  EXPECT_EQ(bytes(), before);
}

TEST_F(InputFiles, AreNotMeantByMarkovAndExact) {
  for (const std::string model : {"markov", "exact"}) {
    for (const char* time : {"first", "again"}) {
      const ProgramResult result =
          mac("rollout " + model + " --data @/data.h5 -o " + model, "cd " + folder_.path().string() + " &&");
      EXPECT_EQ(result.exit_code, 0) << time << "\n" << result.output;
    }
    EXPECT_TRUE(fs::exists(file(model)));
  }
}

TEST_F(InputFiles, ThatAreMissingEndEveryCommandWithOne) {
  for (const char* arguments :
       {"generate @/none -o @/x", "run @/none -o @/x", "train @/none --data @/data.h5 -o @/x",
        "train @/study.toml --data @/none -o @/x", "rollout @/none --data @/data.h5 -o @/x",
        "rollout markov --data @/none -o @/x", "rollout markov --data @/data.h5 --from @/none -o @/x",
        "evaluate @/none", "evaluate @/none.json", "evaluate @/metrics.json --against @/none.json",
        "report --rollouts @/none -o @/x", "predict @/none --input @/data.h5 -o @/x",
        "predict @/net.safetensors --input @/none -o @/x", "export @/none -o @/x", "info @/none",
        "info @/net.safetensors --card @/none.json", "diagnose @/none",
        "diagnose memory @/none --data @/data.h5", "diagnose memory @/net.safetensors --data @/none"})
    expect({arguments, 1, "does not exist"});
}

// Reading from a pipe would wait for ever, and from a device never end. ? is the one or the other.
TEST_F(InputFiles, ThatArePipesOrDevicesAreRefused) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  for (const std::string input : {"@/pipe", "/dev/zero"})
    for (std::string arguments : {"generate ? -o @/x",
                                  "run ? -o @/x",
                                  "sweep ? --over training.noise=0,1 -o @/x",
                                  "diagnose ?",
                                  "train ? --data @/data.h5 -o @/x",
                                  "train @/study.toml --data ? -o @/x",
                                  "rollout ? --data @/data.h5 -o @/x",
                                  "rollout markov --data ? -o @/x",
                                  "rollout markov --data @/data.h5 --from ? -o @/x",
                                  "evaluate ?",
                                  "evaluate @/metrics.json --against ?",
                                  "evaluate @/markov.h5 --data ?",
                                  "report --rollouts ? -o @/x",
                                  "report --rollouts @/markov.h5 --data ? -o @/x",
                                  "predict ? --input @/data.h5 -o @/x",
                                  "predict @/net.safetensors --input ? -o @/x",
                                  "export ? -o @/x",
                                  "ensemble @/net.safetensors ? -o @/x",
                                  "import ? -o @/x",
                                  "info ?",
                                  "info @/net.safetensors --card ?",
                                  "verify ?",
                                  "diagnose memory ? --data @/data.h5",
                                  "diagnose memory @/net.safetensors --data ?",
                                  "diagnose memory @/net.safetensors --data @/data.h5 -o @/x --kernel ?",
                                  "--plugin ? info @/data.h5"}) {
      arguments.replace(arguments.find('?'), 1, input);
      const ProgramResult result = mac(arguments, "timeout -k 1 20");
      EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 2) << arguments << "\n" << result.output;
      EXPECT_NE(result.output.find(" is a device or a pipe, expected a file"), std::string::npos)
          << arguments << "\n"
          << result.output;
      EXPECT_FALSE(fs::exists(file("x"))) << arguments;
    }
}

TEST_F(InputFiles, ThatMayNotBeReadAreNotCalledWrong) {
  fs::permissions(file("data.h5"), fs::perms::none);
  fs::permissions(folder_.path(), fs::perms::all);
  // The superuser may read anything: another user asks.
  const std::string prefix = geteuid() == 0 ? "setpriv --reuid=65534 --clear-groups" : "";
  if (mac("--version", prefix).exit_code != 0) GTEST_SKIP() << "nobody else may run the program here";
  expect({"rollout markov --data @/data.h5 -o @/x.h5", 1, "data.h5: cannot be read: Permission denied"},
         prefix);
  expect({"info @/data.h5", 1, "data.h5: cannot be read: Permission denied"}, prefix);
}

TEST_F(InputFiles, OfAnotherKindAreNamed) {
  mac("export @/net.safetensors -o @/step.onnx");
  for (const Misuse& misuse : std::initializer_list<Misuse>{
           {"info @/metrics.json", 1, "metrics.json: is a JSON file, expected a network"},
           {"info @/study.toml", 1, "study.toml: is a text file, expected a network"},
           {"info @/net.history.csv", 1, "net.history.csv: is a text file, expected a network"},
           {"info @/step.onnx", 1, "step.onnx: is an ONNX graph, expected a network"},
           {"rollout @/data.h5 --data @/data.h5 -o @/x.h5", 1,
            "data.h5: is an HDF5 file, expected a network"},
           {"diagnose memory @/markov.h5 --data @/data.h5", 1,
            "markov.h5: is an HDF5 file, expected a network"},
           {"export @/data.h5 -o @/x.onnx", 1, "data.h5: is an HDF5 file, expected a network"},
           {"predict @/data.h5 --input @/data.h5 -o @/x.h5", 1,
            "data.h5: is an HDF5 file, expected a network"}})
    expect(misuse);
  expect(
      {"rollout @/net.safetensors --target mean --data @/data.h5 -o @/x.h5", 2, "only exact has a --target"});
}

// The first byte of an ONNX graph, and no third one.
TEST_F(InputFiles, OfOneByteAreOfNoKind) {
  write_bytes(file("short.bin"), "\x08");
  expect({"info @/short.bin", 1, "short.bin: is 1 bytes long"});
  expect({"import @/short.bin -o @/new.h5", 2, "short.bin: is a file of an unknown kind, expected NumPy"});
}

TEST_F(InputFiles, ThatAreDamagedNeitherCrashNorHang) {
  std::mt19937 random(7);
  std::size_t refused = 0;
  for (const auto& [name, command] : {std::pair{"data.h5", "info"}, std::pair{"markov.h5", "evaluate"}}) {
    const std::string whole = read_bytes(file(name));
    for (int round = 0; round < 60; ++round) {
      std::string bytes = whole;
      for (int flips = round % 2 == 0 ? 1 : 16; flips > 0; --flips)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      write_bytes(file("damaged.h5"), bytes);
      const ProgramResult result = mac(std::string(command) + " @/damaged.h5", "timeout 20");
      EXPECT_LE(result.exit_code, 2) << command << " round " << round << "\n" << result.output;
      refused += result.exit_code != 0;
    }
  }
  EXPECT_GT(refused, 50u) << "checksums find damage";
}

}  // namespace
}  // namespace mac
