// One network for every site of a ring: what a shift does to it, rings of another length, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/error.hpp>
#include <mac/experiment.hpp>
#include <mac/model.hpp>
#include <mac/open_model.hpp>
#include <mac/rollout.hpp>

#include "io/hdf5.hpp"
#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

std::string study(std::size_t n, const std::string& more = "") {
  return "[system]\nname = \"lorenz96\"\nJ = 4\nwarmup_steps = 50\nN = " + std::to_string(n) + "\n" + more +
         "[data]\ndt = 0.005\nstride = 2\n"
         "[data.train]\ntrajectories = 2\nhorizon = 0.3\n[data.validation]\ntrajectories = 1\nhorizon = 0.3\n"
         "[data.test]\ntrajectories = 3\nhorizon = 0.2\n"
         "[[models]]\nname = \"local\"\nkind = \"mamba\"\nlocal = { stencil = [-1, 2], of = \"X\" }\n"
         "d_model = 4\nblocks = 1\nd_state = 2\n"
         "[training]\nsteps = 4\nbatch = 2\nvalidate_every = 2\nsites = 2\n"
         "[[training.stages]]\n[[training.stages]]\nloss = \"rollout\"\nrollout_steps = 3\nwindow = 8\nsites "
         "= 0\n";
}

class LocalRollout : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::ScratchFolder;
    for (const auto& [name, text] :
         {std::pair{"short", study(6)}, {"long", study(11)}, {"other", study(6, "F = 9.0\n")}}) {
      test::write_bytes(file(std::string(name) + ".toml"), text);
      generate(Experiment::parse(text, name), file(std::string(name) + ".h5"), {1, true});
    }
    const auto trained = mac("train @/short.toml --data @/short.h5 -o @/local.safetensors --threads 1");
    ASSERT_EQ(trained.exit_code, 0) << trained.output;
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string file(const std::string& name) { return folder_->file(name); }
  static test::ProgramResult mac(const std::string& arguments) {
    return test::run_program_in(folder_->path(), arguments + " --quiet");
  }
  static test::ScratchFolder* folder_;
};
test::ScratchFolder* LocalRollout::folder_ = nullptr;

TEST_F(LocalRollout, TheFileSaysWhatASiteReads) {
  const Model model = load_model(file("local.safetensors"));
  EXPECT_EQ(model.input_names, (std::vector<std::string>{"X[-1]", "X[0]", "X[1]", "X[2]"}));
  EXPECT_EQ(model.output_names, std::vector<std::string>{"C_X"});
  EXPECT_EQ(model.closure_targets, std::vector<std::size_t>{1});
  EXPECT_EQ(model.inputs, (NetworkInputs{{}, {}, {"X"}, {{-1, 2}}}));
  EXPECT_EQ(model.normalisation.input_mean.size(), 4u);
  ASSERT_TRUE(model.training_range);
  EXPECT_EQ(model.training_range->input_low.size(), 4u);
}

TEST_F(LocalRollout, AShiftOfTheRingShiftsTheClosureExactly) {
  const DataFile data = DataFile::open(file("long.h5"));
  const DataSplit split = data.split("test");
  const std::size_t n = 11, shift = 4, steps = 12;
  const auto model = open_model({file("local.safetensors"), "", {}, {}}, data);
  const auto group = model->start(split, 0, 2), image = model->start(split, 0, 2);
  std::vector<double> y(2 * n), shifted(2 * n), closure(2 * n), shifted_closure(2 * n);
  for (std::size_t step = 0; step < steps; ++step) {  // the memory of every site fills
    for (std::size_t i = 0; i < 2; ++i) split.read_resolved(i, step, 1, y.data() + i * n);
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < n; ++k) shifted[i * n + k] = y[i * n + (k + shift) % n];
    group->predict(step, y.data(), closure.data());
    image->predict(step, shifted.data(), shifted_closure.data());
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < n; ++k)
        ASSERT_EQ(shifted_closure[i * n + k], closure[i * n + (k + shift) % n]) << step << " " << k;
  }
  EXPECT_NE(closure[0], closure[1]);
}

TEST_F(LocalRollout, RunsOnARingOfAnotherLength) {
  for (const char* ring : {"short", "long"}) {
    const std::string name(ring);
    const auto result =
        mac("rollout @/local.safetensors --data @/" + name + ".h5 -o @/" + name + "-rollout.h5 --threads 1");
    ASSERT_EQ(result.exit_code, 0) << result.output;
    const RolloutSplit split = RolloutFile::open(file(name + "-rollout.h5")).splits.front();
    EXPECT_EQ(split.resolved.size(), 3 * 21 * (name == "short" ? 6u : 11u));
    for (const double value : split.resolved) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST_F(LocalRollout, ThreadsAndHoldsByStageAgreeWithOneColumn) {
  const DataFile data = DataFile::open(file("long.h5"));
  ModelRequest request{file("local.safetensors"), "", Hold::stage, {}};
  RolloutOptions options;
  options.quiet = true;
  options.splits = {"test"};
  const auto model = open_model(request, data);
  options.threads = 1;
  const RolloutFile one = rollout_in_memory(*model, data, options);
  options.threads = 3;
  EXPECT_EQ(rollout_in_memory(*model, data, options).splits[0].resolved, one.splits[0].resolved);
}

TEST_F(LocalRollout, PredictsAlongTheTruthAsSteppingDoes) {
  const auto result = mac("predict @/local.safetensors --input @/long.h5 -o @/predicted.h5 --mode step");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const DataFile data = DataFile::open(file("long.h5"));
  const DataSplit split = data.split("test");
  const auto model = open_model({file("local.safetensors"), "", {}, {}}, data);
  const auto group = model->start(split, 0, 3);
  const std::vector<double> predicted =
      h5::File::open(file("predicted.h5")).dataset("/test/closure").read_all();
  std::vector<double> y(3 * 11), closure(3 * 11);
  for (std::size_t t = 0; t < split.times(); ++t) {
    for (std::size_t i = 0; i < 3; ++i) split.read_resolved(i, t, 1, y.data() + i * 11);
    group->predict(t, y.data(), closure.data());
    for (std::size_t k = 0; k < closure.size(); ++k)
      ASSERT_EQ(predicted[(k / 11 * split.times() + t) * 11 + k % 11], closure[k]) << t << " " << k;
  }
}

TEST_F(LocalRollout, OtherParametersThanTheLengthAreRefused) {
  const auto result = mac("rollout @/local.safetensors --data @/other.h5 -o @/no.h5");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("was trained with F = 10, but in "), std::string::npos) << result.output;
}

TEST_F(LocalRollout, OnACudaDeviceAreRefusedWithASentence) {
  const auto rolled = mac("rollout @/local.safetensors --data @/short.h5 -o @/no.h5 --device cuda");
  EXPECT_EQ(rolled.exit_code, 2) << rolled.output;
  EXPECT_NE(rolled.output.find("with which a CUDA device does not roll out yet: use --device cpu"),
            std::string::npos)
      << rolled.output;
}

TEST_F(LocalRollout, MistakesInTheExperimentAreNamed) {
  const auto with = [](const std::string& what, const std::string& by) {
    std::string text = study(6);
    return text.replace(text.find(what), what.size(), by);
  };
  const std::string local = "local = { stencil = [-1, 2], of = \"X\" }";
  const struct {
    std::string text;
    const char* part;
  } cases[] = {
      {with(local, "local = { stencil = [1, 2], of = \"X\" }"),
       "local.stencil: expected whole numbers [from, to]"},
      {with(local, "local = { stencil = [-1, 2.5], of = \"X\" }"), "local.stencil: expected whole numbers"},
      {with(local, "local = { stencil = [-1, 2], of = \"Y\" }"), "has no lattice \"Y\""},
      {with(local, "local = { stencil = [-1, 2] }"), "of: is missing"},
      {with(local, "local = { stencil = [-1, 2], of = \"X\", site = 3 }"), "unknown key"},
      {with(local, local + "\ninputs = { state = [\"X1\"] }"), "\"X1\" is no feature of the sites of X"},
      {with(local, local + "\ninputs = { given = [\"F\"] }"), "\"F\" is not among what the data give"},
      {with(local, "inputs = { state = [] }"), "left out, the network reads all resolved variables"},
      {with("sites = 2", "sites = 7"), "the lattice has 6"},
      {with(local, ""), "only a local network has sites"},
  };
  for (const auto& one : cases) {
    std::string said;
    try {
      Experiment::parse(one.text, "study.toml");
    } catch (const UsageError& error) {
      said = error.what();
    }
    EXPECT_NE(said.find(one.part), std::string::npos) << one.part << " in: " << said;
  }
}

}  // namespace
}  // namespace mac
