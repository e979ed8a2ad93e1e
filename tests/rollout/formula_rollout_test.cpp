// A system driven by what is known at any time, [data.given]: the network reads it in training and in rollouts, beyond
// the end of the data as well.
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

/// x' = -x + p, where the hidden p is cos(omega t): x = A e^{-t} + (cos omega t + omega sin omega t)/(1 + omega^2).
std::string study(const std::string& given) {
  return "[system]\nkind = \"equations\"\nname = \"driven\"\nparameters = { omega = 2.0 }\nresolved = "
         "[\"x\"]\n"
         "hidden = [\"p\", \"q\"]\nequations = \"dx = p - x; dp = -omega*q; dq = omega*p\"\n"
         "initial = { x = \"uniform(-1, 1)\", p = 1, q = 0 }\nreduced = { p = \"drop\", q = \"drop\" }\n"
         "[data]\ndt = 0.05\nstride = 2\n[data.given]\n" +
         given +
         "[data.train]\ntrajectories = 8\nhorizon = 4.0\n[data.validation]\ncontinues = \"train\"\nhorizon = "
         "2.0\n"
         "[data.test]\ntrajectories = 3\nhorizon = 4.0\n"
         // Without memory: the phase of the drive cannot be had from the past.
         "[[models]]\nname = \"knows\"\nkind = \"mlp\"\nd_model = 8\nblocks = 1\n"
         "[[models]]\nname = \"blind\"\nkind = \"mlp\"\nd_model = 8\nblocks = 1\ninputs = { given = [] }\n"
         "[training]\nrecipe = \"fast\"\nsteps = 150\nbatch = 8\nmax_lr = 1e-2\nnoise = 0.0\n";
}

const std::string drive = "drive = \"cos(omega*t)\"\n";

class FormulaRollout : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::ScratchFolder;
    test::write_bytes(file("study.toml"), study(drive));
    ASSERT_EQ(mac("generate @/study.toml -o @/data.h5 --threads 1").exit_code, 0);
    for (const char* name : {"knows", "blind"}) {
      const auto trained = mac(std::string("train @/study.toml --data @/data.h5 --threads 1 --model ") +
                               name + " -o @/" + name + ".safetensors");
      ASSERT_EQ(trained.exit_code, 0) << trained.output;
    }
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string file(const std::string& name) { return folder_->file(name); }
  static test::ProgramResult mac(const std::string& arguments) {
    return test::run_program_in(folder_->path(), arguments + " --quiet");
  }
  /// The largest error over [from, to] of a rollout to `to`.
  static double error(const std::string& model, double from, double to) {
    const DataFile data = DataFile::open(file("data.h5"));
    RolloutOptions options;
    options.quiet = true;
    options.threads = 1;
    options.splits = {"test"};
    options.to = to;
    const RolloutFile rolled = rollout_in_memory(*open_model({file(model), "", {}, {}}, data), data, options);
    const RolloutSplit& split = rolled.splits.front();
    const std::size_t times = split.time.size();
    EXPECT_EQ(times, static_cast<std::size_t>(std::lround(to / 0.1)) + 1);
    const auto forced = [](double t) { return (std::cos(2 * t) + 2 * std::sin(2 * t)) / 5; };
    double worst = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const double* const x = split.resolved.data() + i * times;
      for (std::size_t n = 0; n < times; ++n) {
        const double t = split.time[n], exact = (x[0] - forced(0)) * std::exp(-t) + forced(t);
        if (t > from) worst = std::max(worst, std::abs(x[n] - exact));
      }
    }
    return worst;
  }
  static test::ScratchFolder* folder_;
};
test::ScratchFolder* FormulaRollout::folder_ = nullptr;

TEST_F(FormulaRollout, TheFileNamesTheInput) {
  const Model model = load_model(file("knows.safetensors"));
  EXPECT_EQ(model.input_names, (std::vector<std::string>{"x", "drive"}));
  EXPECT_EQ(model.inputs.given, std::vector<std::string>{"drive"});
}

TEST_F(FormulaRollout, ANetworkThatReadsTheDriveLearnsIt) {
  // The solution moves by .45; 150 steps teach the network that the closure is its input to some per cent.
  EXPECT_LT(error("knows.safetensors", 0, 4), 0.05);
  EXPECT_GT(error("blind.safetensors", 0, 4), 0.2);
}

TEST_F(FormulaRollout, BeyondTheDataTheDriveGoesOn) {
  // Frozen at cos(8) = -.15 the error would be that of no drive, .4 and more.
  EXPECT_LT(error("knows.safetensors", 4, 20), 0.05);
}

TEST_F(FormulaRollout, ASplitThatContinuesAnotherHasItsClock) {
  const DataFile data = DataFile::open(file("data.h5"));
  const DataSplit split = data.split("validation");
  std::vector<double> given(25);
  split.read_inputs(3, 0, given.size(), given.data());  // 21 saved times, and four beyond
  for (std::size_t n = 0; n < given.size(); ++n)
    EXPECT_NEAR(given[n], std::cos(2 * (4 + 0.1 * static_cast<double>(n))), 1e-12) << n;
}

TEST_F(FormulaRollout, PredictReadsIt) {
  const auto result = mac("predict @/knows.safetensors --input @/data.h5 -o @/predicted.h5");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const std::vector<double> predicted =
      h5::File::open(file("predicted.h5")).dataset("/test/closure").read_all();
  ASSERT_EQ(predicted.size(), 3u * 41);
  for (std::size_t k = 0; k < predicted.size(); ++k)
    ASSERT_NEAR(predicted[k], std::cos(0.2 * static_cast<double>(k % 41)), 0.1);
}

TEST_F(FormulaRollout, DataOfAnotherFormulaAreRefused) {
  test::write_bytes(file("other.toml"), study("drive = \"sin(omega*t)\"\n"));
  const auto result = mac("train @/other.toml --data @/data.h5 --model knows -o @/no.safetensors");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("has [data.given] drive = cos(omega*t), in "), std::string::npos)
      << result.output;
  test::write_bytes(file("none.toml"), study(""));
  const auto none = mac("generate @/none.toml -o @/none.h5 --threads 1");
  ASSERT_EQ(none.exit_code, 0) << none.output;
  const auto rolled = mac("rollout @/knows.safetensors --data @/none.h5 -o @/no.h5");
  EXPECT_EQ(rolled.exit_code, 2);
  EXPECT_NE(rolled.output.find("\"drive\" is not among what the data give"), std::string::npos)
      << rolled.output;
}

TEST_F(FormulaRollout, WhatIsNotFiniteIsNamedWithItsTime) {
  test::write_bytes(file("infinite.toml"), study("drive = \"1/(t - 1)\"\n"));
  ASSERT_EQ(mac("generate @/infinite.toml -o @/infinite.h5 --threads 1").exit_code, 0);
  const auto result = mac("train @/infinite.toml --data @/infinite.h5 --model knows -o @/no.safetensors");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("the given drive = \"1/(t - 1)\" is "), std::string::npos) << result.output;
}

}  // namespace
}  // namespace mac
