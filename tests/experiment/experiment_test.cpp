// Experiments: what a good one means, and what is said about a bad one.
#include <gtest/gtest.h>

#include <filesystem>
#include <mac/error.hpp>
#include <mac/experiment.hpp>

namespace mac {
namespace {

const std::string good = R"([system]
name = "burgers"
viscosity = 0.1
modes = 3
grid = 32

[data]
dt = 1e-3
stride = 10
seed = 7

[data.train]
trajectories = 4
horizon = 0.1

[data.test]
trajectories = 2
horizon = 0.2

[data.ood]
horizon = 0.2
initial = { kind = "fields", fields = ["sin", "exp_sin"] }

[evaluation]
intervals = [[0, 0.1], [0.1, 0.2]]
)";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

std::string message_of(const std::string& text) {
  try {
    Experiment::parse(text, "study.toml");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(Experiment, ReadsSystemDataAndEvaluation) {
  const Experiment experiment = Experiment::parse(good, "study.toml");
  EXPECT_EQ(experiment.system->name(), "burgers");
  EXPECT_EQ(experiment.data.seed, 7u);
  EXPECT_DOUBLE_EQ(experiment.data.closure_step(), 1e-2);
  ASSERT_EQ(experiment.data.splits.size(), 3u);
  EXPECT_EQ(experiment.data.splits[0].intervals, 10u);
  EXPECT_EQ(experiment.data.splits[2].trajectories, 2u) << "the list of fields says how many";
  ASSERT_EQ(experiment.evaluation.intervals.size(), 2u);
  EXPECT_EQ(to_string(experiment.evaluation.intervals[1]), "[0.1,0.2]");
  ASSERT_EQ(experiment.evaluation.ood_intervals.size(), 1u) << "the whole horizon by default";
}

TEST(Experiment, ReadsItsOwnTextAgain) {
  const Experiment experiment = Experiment::parse(good, "study.toml");
  EXPECT_EQ(experiment.config.text(), good);
}

TEST(Experiment, EveryShippedExperimentIsValid) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(MAC_EXPERIMENTS)) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_NO_THROW(Experiment::read(entry.path().string())) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 8u);
}

struct Mistake {
  const char* what;
  const char* by;
  const char* message;  // part of the expected sentence, with file and line
};

class BadExperiment : public ::testing::TestWithParam<Mistake> {};

TEST_P(BadExperiment, IsRefusedWithFileLineAndKey) {
  const auto& [what, by, message] = GetParam();
  EXPECT_NE(message_of(replaced(good, what, by)).find(message), std::string::npos)
      << "expected: " << message << "\n   found: " << message_of(replaced(good, what, by));
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, BadExperiment,
    ::testing::Values(
        Mistake{"[system]", "[system", "study.toml:1: not valid TOML"},
        Mistake{"name = \"burgers\"", "name = \"burger\"", "did you mean \"burgers\"?"},
        Mistake{"name = \"burgers\"\n", "", "study.toml:1: system.name: is missing"},
        Mistake{"name = \"burgers\"", "name = 3",
                "study.toml:2: system.name: is an integer, expected a string"},
        Mistake{"viscosity = 0.1", "viscosty = 0.1",
                "study.toml:3: system.viscosty: unknown key; did you mean \"viscosity\"?"},
        Mistake{"viscosity = 0.1", "viscosity = -0.1",
                "study.toml:3: system.viscosity: is -0.1, expected a number > 0"},
        Mistake{"viscosity = 0.1", "viscosity = \"0.1\"",
                "study.toml:3: system.viscosity: is a string, expected a number > 0"},
        Mistake{"viscosity = 0.1", "viscosity = nan", "study.toml:3: system.viscosity: is nan"},
        Mistake{"viscosity = 0.1", "dispersion = 0.1", "study.toml:3: system.dispersion: unknown key"},
        Mistake{"name = \"burgers\"\nviscosity = 0.1", "name = \"ks\"\nL = 22.0",
                "study.toml:3: system.L: unknown key"},
        Mistake{"[system]\nname = \"burgers\"\nviscosity = 0.1",
                "[[models]]\nname = \"m\"\nkind = \"linear_memory\"\n[system]\nname = \"ks\"",
                "study.toml:3: models[0].kind: linear_memory needs trajectories that begin without "
                "unresolved modes; "
                "those of ks begin on the attractor, after 2000 warmup_steps"},
        Mistake{"modes = 3", "modes = 0", "study.toml:4: system.modes: is 0, expected an integer"},
        Mistake{"modes = 3", "modes = 3.5", "study.toml:4: system.modes: is a number, expected an integer"},
        Mistake{"grid = 32", "grid = 4", "study.toml:5: system.grid:"},
        Mistake{"dt = 1e-3", "dt = 0", "study.toml:8: data.dt: is 0, expected a number > 0"},
        Mistake{"dt = 1e-3", "dt = 1.0",
                "study.toml:8: data.dt: is 1, but the burgers solver is stable only up to"},
        Mistake{"dt = 1e-3\n", "", "data.dt: is missing"},
        Mistake{"stride = 10", "stride = 0", "study.toml:9: data.stride: is 0, expected an integer"},
        Mistake{"seed = 7", "seed = -1", "study.toml:10: data.seed: is -1, expected an integer >= 0"},
        Mistake{"trajectories = 4", "trajectories = 0",
                "study.toml:13: data.train.trajectories: is 0, expected an integer"},
        Mistake{"trajectories = 4\n", "", "data.train.trajectories: is missing"},
        Mistake{"horizon = 0.1", "horizon = 0.105",
                "study.toml:14: data.train.horizon: is 0.105, which is not a multiple of dt * stride = 0.01"},
        Mistake{"horizon = 0.1", "horizon = inf", "study.toml:14: data.train.horizon: is inf"},
        Mistake{"[data.test]", "[data.tset]", "data.tset: unknown key; did you mean \"test\"?"},
        Mistake{"\"sin\"", "\"cos\"", "data.ood.initial"},
        Mistake{"kind = \"fields\"", "kind = \"field\"", "did you mean \"fields\"?"},
        Mistake{"[0.1, 0.2]", "[0.2, 0.1]",
                "study.toml:25: evaluation.intervals: expected intervals [from, to]"},
        Mistake{"[0.1, 0.2]", "[0.1, 0.3]",
                "evaluation.intervals: reaches to t = 0.3, but [data.test] ends at 0.2"},
        Mistake{"[0.1, 0.2]", "[0.111, 0.112]",
                "evaluation.intervals: no time is saved in [0.111, 0.112]: dt * stride is 0.01"},
        Mistake{
            "intervals = [[0, 0.1]", "intervals = [[0, \"a\"]",
            "evaluation.intervals: has an element that is an array, expected an array of arrays of numbers"},
        Mistake{"[evaluation]", "[evalution]",
                "study.toml:24: evalution: unknown key; did you mean \"evaluation\"?"},
        Mistake{"[data.train]", "[data.train]\ncontinues = \"test\"",
                "there is no earlier split to continue"},
        Mistake{"[data.ood]", "[data.ood]\ncontinues = \"train\"",
                "a split that continues another has no initial condition"}));

/// What is said of the good experiment and one whose [system] reads otherwise.
std::string difference(const std::string& what, const std::string& by) {
  try {
    check_same_system("data.h5", Experiment::parse(good, "data.h5"), "study.toml",
                      Experiment::parse(replaced(good, what, by), "study.toml"));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(none)";
}

TEST(SameSystem, IsTheSameHoweverItIsWritten) {
  EXPECT_EQ(difference("viscosity = 0.1\nmodes = 3\n", ""), "(none)") << "the defaults, left out";
  EXPECT_EQ(difference("viscosity = 0.1", "viscosity = 1.00e-1  # a comment"), "(none)");
  EXPECT_EQ(difference("seed = 7", "seed = 8"), "(none)") << "no part of the system";
}

TEST(SameSystem, NamesTheFirstKeyThatDiffersAndBothValues) {
  const std::string begin = "data.h5: is about another system: ";
  EXPECT_EQ(difference("viscosity = 0.1", "viscosity = 0.9"),
            begin + "viscosity is 0.1, in study.toml it is 0.9");
  EXPECT_EQ(difference("name = \"burgers\"\nviscosity = 0.1", "name = \"kdv\""),
            begin + "name is \"burgers\", in study.toml it is \"kdv\"");
}

TEST(Experiment, NamesAMissingFileOrFolder) {
  EXPECT_THROW(Experiment::read("/no/such/file.toml"), Error);
  EXPECT_THROW(Experiment::read("/"), Error);
}

TEST(Experiment, NeedsASystemAndData) {
  EXPECT_EQ(message_of(""), "study.toml:1: the table [system] is missing");
  EXPECT_EQ(message_of("[system]\nname = \"kdv\"\n"), "study.toml:1: the table [data] is missing");
}

}  // namespace
}  // namespace mac
