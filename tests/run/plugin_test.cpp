// Systems in shared libraries: every command, and libraries that are not as they should be.
#include "systems/plugin.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <mac/config.hpp>
#include <mac/data.hpp>
#include <mac/linear_part.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

const std::string study = R"toml([system]
name = "plugged_duffing"
k = 0.5
[data]
dt = 0.01
stride = 10
[data.train]
trajectories = 6
horizon = 2.0
[data.validation]
trajectories = 2
horizon = 2.0
[data.test]
trajectories = 2
horizon = 2.0
[[models]]
name = "mac"
kind = "gru"
d_model = 3
blocks = 1
[training]
recipe = "fast"
batch = 4
steps = 3
loss = "rollout"
rollout_steps = 2
)toml";

std::string library(const std::string& kind) {
  return std::string(MAC_PLUGIN_FOLDER) + "/libplugin_" + kind + ".so";
}

TEST(Plugin, IsASystemForEveryCommand) {
  const test::ScratchFolder folder;
  test::write_bytes(folder.file("study.toml"), study);
  const auto run = test::run_program("--plugin " + library("sound") + " run " + folder.file("study.toml") +
                                     " -o " + folder.file("run") + " --threads 1 --quiet");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  const std::string roll = "rollout markov --data " + folder.file("run/data.h5") + " --quiet -o ";
  EXPECT_EQ(test::run_program(roll + folder.file("a.h5"), "MAC_PLUGINS=:" + library("sound") + ":").exit_code,
            0);
  EXPECT_EQ(test::run_program(roll + folder.file("b.h5")).exit_code, 2);
  EXPECT_EQ(test::run_program("report " + folder.file("run") + " -o " + folder.file("r.html")).exit_code, 0);
}

TEST(Plugin, SaysWhatItsFunctionsSay) {
  load_plugin(library("sound"));
  const auto system = make_system(ConfigTable::parse("name = 'plugged_duffing'\nd = 0.3", "test.toml"));
  ASSERT_EQ(system->symmetries().size(), 1u);
  EXPECT_EQ(system->symmetries()[0].kind, Symmetry::Kind::reflection);
  EXPECT_EQ(linear_part_of(*system), (std::vector<double>{0, 1, 1, -0.3}));
  const auto watched = system->diagnostics(std::vector<double>{2, 1, 3, 4});
  ASSERT_EQ(watched.size(), 2u);
  EXPECT_EQ(watched[0].value, 2.5);
  EXPECT_TRUE(watched[0].conserved);
  EXPECT_EQ(watched[1].name, "sum");
  EXPECT_EQ(watched[1].value, 10);
  EXPECT_FALSE(watched[1].conserved);
}

TEST(Plugin, WithTangentsAloneHasExactGradients) {
  load_plugin(library("forward"));
  const auto system = make_system(ConfigTable::parse("name = 'forward_duffing'", "test.toml"));
  const double y[] = {0.7, -0.4}, adjoint[] = {1.5, -2};
  double gradient[] = {0.25, 0};
  system->reduced_rhs_vjp(y, adjoint, gradient);
  EXPECT_NEAR(gradient[0], 0.25 - 2 * (1 - 3 * 0.49), 1e-15);  // differences are wrong by 1e-11
  EXPECT_NEAR(gradient[1], 1.5 + 2 * 0.2, 1e-15);
}

TEST(Plugin, IsFoundBesideTheExperimentThatNamesIt) {
  const test::ScratchFolder folder;
  std::filesystem::copy_file(library("sound"), folder.file("libmine.so"));
  std::string text = study;
  test::write_bytes(folder.file("study.toml"), text.insert(text.find("k = 0.5"), "plugin = 'libmine.so'\n"));
  const auto made =
      test::run_program("generate " + folder.file("study.toml") + " -o " + folder.file("d.h5") + " --quiet");
  EXPECT_EQ(made.exit_code, 0) << made.output;
  const auto info = test::run_program("info " + folder.file("d.h5"));
  EXPECT_NE(info.output.find("plugged_duffing"), std::string::npos);
}

/// All numbers of the split test: states, closures and their means.
std::vector<double> test_numbers(const std::string& file) {
  const DataFile data = DataFile::open(file);
  const DataSplit split = data.split("test");
  const std::size_t times = split.times(), d = split.resolved_size(), c = split.closure_size();
  std::vector<double> all;
  for (std::size_t i = 0; i < split.trajectories(); ++i) {
    all.resize(all.size() + times * (d + c) + (times - 1) * c);
    double* at = all.data() + all.size() - (times * (d + c) + (times - 1) * c);
    split.read_resolved(i, 0, times, at);
    split.read_closure(i, 0, times, at += times * d);
    split.read_closure_mean(i, 0, times - 1, at + times * c);
  }
  return all;
}

TEST(Plugin, OfARingGivesTheDataOfItsTextInEveryLanguage) {
  const test::ScratchFolder folder;
  const auto generated = [&](const std::string& system, const std::string& name, const std::string& options) {
    test::write_bytes(
        folder.file(name + ".toml"),
        system + "[data]\ndt = 0.05\nstride = 4\n[data.test]\ntrajectories = 5\nhorizon = 20\n");
    const auto made = test::run_program(options + " generate " + folder.file(name + ".toml") + " -o " +
                                        folder.file(name + ".h5") + " --quiet");
    EXPECT_EQ(made.exit_code, 0) << made.output;
    return test_numbers(folder.file(name + ".h5"));
  };
  // The plug-ins' reduced models are without the hidden variables.
  const std::string text = test::read_bytes(std::string(MAC_EXPERIMENTS) + "/equations/fitzhugh_nagumo.toml");
  const std::string system = text.substr(0, text.find("[data]")) + "reduced = { w = 'drop' }\n";
  const std::vector<double> expected = generated(system, "text", "");
  std::stringstream rings(MAC_RINGS);
  for (std::string ring; rings >> ring;) {
    const std::vector<double> numbers =
        generated("[system]\nname = '" + ring + "'\n", ring,
                  "--plugin " + std::string(MAC_RING_FOLDER) + "/lib" + ring + ".so");
    ASSERT_EQ(numbers.size(), expected.size()) << ring;
    // Numbers of size 2, rounded in other orders: 1e-14 in 2400 steps, as cells that come back to their cycle do not
    // amplify it.
    double largest = 0;
    for (std::size_t k = 0; k < numbers.size(); ++k)
      largest = std::max(largest, std::abs(numbers[k] - expected[k]));
    EXPECT_LT(largest, 1e-12) << ring;
  }
}

TEST(Plugin, ThatIsNotAsItShouldBeIsNamed) {
  const std::pair<const char*, const char*> wrong[] = {
      {"lies", "mac_reduced_vjp is not the derivative of mac_reduced_rhs"},
      {"misleads", "mac_reduced_jvp is not the derivative of mac_reduced_rhs: for v it gives"},
      {"exceeds", "mac_diagnostics writes beyond its 2 numbers"},
      {"skips", "mac_linear_part does not set number 3 of 4"},
      {"undiagnosed", "conserved: \"entropy\" is none of the diagnostics"},
      {"asymmetric",
       "its symmetry fourier_reflection does not fit: not every resolved variable has a closure"},
      {"crashes", "mac_full_rhs crashes: Segmentation fault"},
      {"ends", "mac_full_rhs ends the program"},
      {"overruns", "mac_sample writes beyond its 4 numbers"},
      {"forgets", "mac_sample does not set number 3 of 4"},
      {"repeats", "parameters: \"k\" is there twice"},
      {"nan", "mac_full_rhs gives nan for number 3"},
      {"old", "was made for version 0 of plug-ins, this program has 1"}};
  for (const auto& [kind, sentence] : wrong) {
    const auto result = test::run_program("--plugin " + library(kind) + " info x.h5");
    EXPECT_EQ(result.exit_code, 2) << kind;
    EXPECT_NE(result.output.find("libplugin_" + std::string(kind)), std::string::npos) << result.output;
    EXPECT_NE(result.output.find(sentence), std::string::npos) << result.output;
  }
  const auto missing = test::run_program("--plugin no.so info x.h5");
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.output.find("no.so: there is no such plug-in"), std::string::npos) << missing.output;
  const auto other = test::run_program("--plugin " + std::string(MAC_EXPERIMENTS) + "/kdv.toml info x.h5");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.output.find("cannot be loaded"), std::string::npos) << other.output;
}

TEST(Plugin, ThatHangsCanBeInterrupted) {
  const auto result = test::run_program("--plugin " + library("hangs") + " info x.h5",
                                        "timeout --preserve-status --signal TERM --kill-after 60 1");
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.output;
}

/// A file's own experiment names a library that lies beside the file: whoever looks at a file runs no code of it.
TEST(Plugin, IsNeverLoadedByAFile) {
  const test::ScratchFolder folder;
  const std::string sound = "[system]\nname = \"burgers\"\ngrid = 32\n";
  const std::string data = "[data]\ndt = 1e-3\nstride = 20\n[data.test]\ntrajectories = 2\nhorizon = 0.1\n";
  test::write_bytes(folder.file("study.toml"), sound + data);
  ASSERT_EQ(test::run_program("run " + folder.file("study.toml") + " -o " + folder.file("run") +
                              " --quiet --no-report")
                .exit_code,
            0);
  const std::string metrics = test::read_bytes(folder.file("run/metrics.json"));
  std::filesystem::copy_file(library("lies"), folder.file("run/lies.so"));  // a complaint if it is loaded
  const std::pair<const char*, const char*> tables[] = {
      {"a name of its own", "[system]\nname = \"of_its_own\"\nplugin = \"lies.so\"\n"},
      {"a known name", "[system]\nname = \"burgers\"\nplugin = \"lies.so\"\ngrid = 32\n"},
      {"a parameter that varies",
       "[system]\nname = \"burgers\"\nplugin = \"lies.so\"\ngrid = 32\nnu = { uniform = [0.09, 0.1] }\n"}};
  for (const auto& [what, table] : tables) {
    auto json = nlohmann::ordered_json::parse(metrics);
    json["experiment"] = table + data;
    for (const bool models : {true, false}) {  // without them nothing describes the system
      if (!models) json["models"] = nlohmann::ordered_json::object();
      test::write_bytes(folder.file("run/other.json"), json.dump());
      const auto result = test::run_program("evaluate " + folder.file("run/other.json"));
      EXPECT_EQ(result.output.find("lies.so"), std::string::npos) << what << "\n" << result.output;
    }
  }
}

}  // namespace
}  // namespace mac
