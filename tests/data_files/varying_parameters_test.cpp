// Parameters that differ between trajectories, and numbers that came with recorded data: drawn, written, read.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/data.hpp>
#include <mac/error.hpp>

#include "support/files.hpp"

namespace mac {
namespace {

using test::read_bytes;
using test::ScratchFolder;

Experiment study(const std::string& system, const std::string& splits,
                 const std::string& data = "dt = 1e-3\nstride = 10\nseed = 2\n") {
  return Experiment::parse("[system]\n" + system + "\n[data]\n" + data + splits, "study.toml");
}

Experiment burgers(const std::string& viscosity, const std::string& more = "") {
  return study("name = \"burgers\"\ngrid = 32\n" + viscosity,
               "[data.train]\ntrajectories = 6\nhorizon = 0.05\n[data.test]\ntrajectories = 2\nhorizon = "
               "0.05\n" +
                   more);
}

DataFile generated(const Experiment& experiment, const ScratchFolder& folder, const char* name = "data.h5",
                   int threads = 2) {
  generate(experiment, folder.file(name), {threads, true});
  return DataFile::open(folder.file(name));
}

std::vector<double> parameter(const DataSplit& split, std::size_t at = 0) {
  std::vector<double> values;
  for (std::size_t i = 0; i < split.trajectories(); ++i) values.push_back(split.parameters(i)[at]);
  return values;
}

struct Series {
  std::vector<double> resolved, closure, mean;
  bool operator==(const Series&) const = default;
};
Series series(const DataSplit& split, std::size_t i) {
  Series all{std::vector<double>(split.times() * split.resolved_size()),
             std::vector<double>(split.times() * split.closure_size()),
             std::vector<double>((split.times() - 1) * split.closure_size())};
  split.read_resolved(i, 0, split.times(), all.resolved.data());
  split.read_closure(i, 0, split.times(), all.closure.data());
  split.read_closure_mean(i, 0, split.times() - 1, all.mean.data());
  return all;
}

TEST(VaryingParameters, AreDrawnForEachTrajectoryAndStored) {
  const ScratchFolder folder;
  const DataFile data = generated(burgers("viscosity = { uniform = [0.05, 0.2] }"), folder);
  const DataSplit train = data.split("train"), test = data.split("test");
  EXPECT_EQ(train.input_names(), std::vector<std::string>{"viscosity"});
  const std::vector<double> values = parameter(train);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_GE(values[i], 0.05);
    EXPECT_LT(values[i], 0.2);
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(values[i], values[j]);
  }
  EXPECT_NE(parameter(test)[0], values[0]);  // a stream for each split
  std::vector<double> inputs(3);
  train.read_inputs(4, 1, 3, inputs.data());
  EXPECT_EQ(inputs, std::vector<double>(3, values[4]));
  EXPECT_THROW(train.read_inputs(6, 0, 1, inputs.data()), Error);
  train.read_inputs(0, 5, 3, inputs.data());  // two times beyond the end of the data
  EXPECT_EQ(inputs, std::vector<double>(3, values[0]));
}

TEST(VaryingParameters, GiveTheSameBytesForAnyThreadCount) {
  const ScratchFolder folder;
  const Experiment experiment = burgers("viscosity = { log_uniform = [0.05, 0.2] }");
  generated(experiment, folder, "one.h5", 1);
  generated(experiment, folder, "three.h5", 3);
  EXPECT_EQ(read_bytes(folder.file("one.h5")), read_bytes(folder.file("three.h5")));
}

/// A system, the law of the parameter that varies, and the numbers that it gives.
struct Case {
  const char* name;
  const char* system;  // {} is the parameter's value
  const char* law;
  double values[2];
};

const Case cases[] = {
    {"burgers", "name = \"burgers\"\ngrid = 32\nviscosity = {}", "{{ list = [0.06, 0.17] }}", {0.06, 0.17}},
    {"kdv", "name = \"kdv\"\ngrid = 32\ndispersion = {}", "{{ grid = [0.02, 0.04, 2] }}", {0.02, 0.04}},
    {"lorenz96", "name = \"lorenz96\"\nwarmup_steps = 20\nF = {}", "{{ list = [16, 24] }}", {16, 24}},
    {"power_grid", "name = \"power_grid\"\nP3 = {}", "{{ list = [2.5, 3.2] }}", {2.5, 3.2}},
    {"equations",
     "kind = \"equations\"\nresolved = [\"x\"]\nhidden = [\"z\"]\nequations = \"\"\"\ndx = -a*x + z\ndz = "
     "-z + a*x*x\n\"\"\"\n[system.reduced]\nz = \"drop\"\n[system.initial]\nx = \"uniform(0, a)\"\nz = "
     "0\n[system.parameters]\na = {}",
     "{{ list = [0.3, 0.7] }}",
     {0.3, 0.7}}};

class OfEachSystem : public testing::TestWithParam<Case> {};

/// Trajectory i of the varied experiment is trajectory i of the one with that number, bit for bit: the full
/// equations, the initial state, and the reduced equations.
TEST_P(OfEachSystem, EquationsAreThoseOfTheFixedParameter) {
  const Case& c = GetParam();
  const ScratchFolder folder;
  const std::string splits = "[data.train]\ntrajectories = 4\nhorizon = 0.05\n";
  const auto with = [&](const std::string& value) {
    return study(fmt::format(fmt::runtime(c.system), value), splits, "dt = 5e-4\nstride = 20\nseed = 2\n");
  };
  const DataFile varied = generated(with(fmt::format(fmt::runtime(c.law))), folder);
  const DataSplit train = varied.split("train");
  ASSERT_EQ(train.systems().size(), 4u);
  for (std::size_t k = 0; k < 2; ++k) {
    const DataFile fixed = generated(with(fmt::format("{}", c.values[k])), folder, "fixed.h5");
    const DataSplit reference = fixed.split("train");
    EXPECT_TRUE(reference.systems().empty());
    for (const std::size_t i : {k, k + 2}) {
      EXPECT_EQ(train.parameters(i)[0], c.values[k]);
      EXPECT_EQ(series(train, i), series(reference, i));
      const Series states = series(train, i);
      std::vector<double> rate(train.resolved_size()), expected(rate);
      train.systems()[i]->reduced_rhs(states.resolved.data(), rate.data());
      fixed.experiment().system->reduced_rhs(states.resolved.data(), expected.data());
      EXPECT_EQ(rate, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(VaryingParameters, OfEachSystem, testing::ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(VaryingParameters, OfASplitAreItsOwnAndThoseThatContinueKeepThem) {
  const ScratchFolder folder;
  const Experiment experiment =
      burgers("",
              "[data.ood]\ntrajectories = 4\nhorizon = 0.05\n[data.ood.system]\nviscosity = { list = "
              "[0.03, 0.3] }\n[data.statistics]\ncontinues = \"ood\"\nhorizon = 0.05\n");
  const DataFile data = generated(experiment, folder);
  EXPECT_EQ(parameter(data.split("train")), std::vector<double>(6, 0.1));  // the system's default
  const std::vector<double> outside{0.03, 0.3, 0.03, 0.3};
  EXPECT_EQ(parameter(data.split("ood")), outside);
  EXPECT_EQ(parameter(data.split("statistics")), outside);
}

TEST(VaryingParameters, OfTwoListsComeInAllCombinations) {
  const ScratchFolder folder;
  const DataFile data = generated(study("name = \"lorenz96\"\nwarmup_steps = 0\nF = { list = [8, 16] }\nc = "
                                        "{ list = [5, 10] }",
                                        "[data.train]\ntrajectories = 4\nhorizon = 0.05\n"),
                                  folder);
  const DataSplit train = data.split("train");
  EXPECT_EQ(train.parameter_names(), (std::vector<std::string>{"F", "c"}));
  EXPECT_EQ(parameter(train, 0), (std::vector<double>{8, 16, 8, 16}));
  EXPECT_EQ(parameter(train, 1), (std::vector<double>{5, 5, 10, 10}));
}

TEST(VaryingParameters, AreRefusedWithLineAndKeyWhereTheyCannotBe) {
  const std::pair<const char*, const char*> refused[] = {
      {"viscosity = { uniform = [0.2, 0.05] }",
       "study.toml:4: system.viscosity.uniform: is [0.2, 0.05], expected the lower end first"},
      {"viscosity = { uniform = [0.2] }",
       "study.toml:4: system.viscosity.uniform: has 1 elements, expected 2 numbers"},
      {"viscosity = { unifrom = [0.05, 0.2] }",
       "study.toml:4: system.viscosity: has \"unifrom\", expected one of uniform, log_uniform, list, grid in "
       "it, as { uniform = [low, high] }; did you mean \"uniform\"?"},
      {"viscosity = { uniform = [0.05, 0.2], list = [1] }", "study.toml:4: system.viscosity: has 2 laws"},
      {"viscosity = { log_uniform = [0, 1] }",
       "study.toml:4: system.viscosity.log_uniform: starts at 0, expected above 0"},
      {"viscosity = { list = [] }", "study.toml:4: system.viscosity.list: is empty, expected a number"},
      {"viscosity = { grid = [0.1, 0.2, 2.5] }",
       "study.toml:4: system.viscosity.grid: is [0.1, 0.2, 2.5], expected [low, high, how many] with 2 to"},
      {"viscosity = { uniform = [-0.1, 0.2] }", "study.toml:4: system.viscosity: is -0.1, expected"},
      {"viscosity = { uniform = [0.1, 50] }", "at viscosity = 50"},
      {"modes = { list = [2, 3] }", "study.toml:4: system.modes: is a number, expected an integer"},
      {"[data.ood]\nhorizon = 0.05\ntrajectories = 1\n[data.ood.system]\nviscosity = -1",
       "data.ood.system.viscosity: is not possible: "},
      {"[data.ood]\nhorizon = 0.05\ntrajectories = 1\n[data.ood.system]\nviscous = 1",
       "data.ood.system.viscous: is no number of [system]: it cannot vary"},
      {"[data.ood]\nhorizon = 0.05\ncontinues = \"test\"\n[data.ood.system]\nviscosity = 1",
       "data.ood.system: a split that continues another has the parameters of that one"}};
  for (const auto& [text, expected] : refused) {
    try {
      const bool in_data = std::string(text).starts_with("[data");
      burgers(in_data ? "" : text, in_data ? text : "");
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

Experiment recorded() {
  return study("name = \"recorded\"\nresolved = [\"x\"]\nequations = \"zero\"",
               "[data.train]\ntrajectories = 2\nhorizon = 2\n",
               "dt = 1\nparameters = [\"depth\"]\nforcing = [\"wind\", \"heat\"]\n");
}

TEST(RecordedInputs, AreWrittenAndReadParametersFirst) {
  const ScratchFolder folder;
  const std::vector<double> x{1, 2, 3, 4, 5, 6}, mean(4), depth{10, 20},
      forcing{.1, .2, .3, .4, .5, .6, .7, .8, .9, 1, 1.1, 1.2};
  write_data(recorded(), {{"train", x, x, mean, depth, forcing}}, folder.file("data.h5"));
  const DataFile data = DataFile::open(folder.file("data.h5"));
  const DataSplit train = data.split("train");
  EXPECT_EQ(train.input_names(), (std::vector<std::string>{"depth", "wind", "heat"}));
  EXPECT_EQ(train.resolved_size(), 1u);
  std::vector<double> inputs(6);
  train.read_inputs(1, 1, 2, inputs.data());
  EXPECT_EQ(inputs, (std::vector<double>{20, .9, 1, 20, 1.1, 1.2}));
  EXPECT_TRUE(train.systems().empty());  // none is a parameter of the system
}

TEST(RecordedInputs, AreRefusedWhereNumbersAreMissingOrNotFinite) {
  const ScratchFolder folder;
  const std::vector<double> x(6), mean(4), depth{10, std::nan("")}, forcing(12);
  const auto message = [&](std::span<const double> parameters, std::span<const double> series) {
    try {
      write_data(recorded(), {{"train", x, x, mean, parameters, series}}, folder.file("data.h5"));
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message(depth, forcing).find("parameters of split train is nan in trajectory 1"),
            std::string::npos);
  EXPECT_NE(
      message(std::span(x).first(2), x).find("forcing of split train has 6 numbers, expected (2, 3, 2)"),
      std::string::npos);
}

TEST(RecordedInputs, CannotBeGenerated) {
  const ScratchFolder folder;
  const Experiment experiment =
      study("name = \"burgers\"\ngrid = 32", "[data.train]\ntrajectories = 1\nhorizon = 0.05\n",
            "dt = 1e-3\nforcing = [\"wind\"]\n");
  EXPECT_THROW(generate(experiment, folder.file("data.h5"), {1, true}), UsageError);
}

}  // namespace
}  // namespace mac
