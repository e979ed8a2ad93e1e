// A model knows the parameters of the system it was trained with, and other values are refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <mac/baselines.hpp>
#include <mac/error.hpp>
#include <mac/open_model.hpp>
#include <mac/system_parameters.hpp>
#include <mac/training.hpp>

#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

std::string study(const std::string& viscosity) {
  return "[system]\nname = \"burgers\"\ngrid = 32\n" + viscosity +
         "\n[data]\ndt = 1e-3\nstride = 10\n[data.train]\ntrajectories = 4\nhorizon = 0.2\n"
         "[data.validation]\ntrajectories = 2\nhorizon = 0.2\n[data.test]\ntrajectories = 2\nhorizon = 0.2\n"
         "[[models]]\nname = \"mac\"\nkind = \"mamba\"\nd_model = 3\nblocks = 1\nd_state = 2\n"
         "[training]\nsteps = 2\nbatch = 2\nvalidate_every = 2\n";
}

/// A network trained at viscosity .1, the default, and data of .05.
class OtherParameters : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::ScratchFolder;
    test::write_bytes(folder_->file("study.toml"), study(""));
    const Experiment experiment = Experiment::read(folder_->file("study.toml"));
    generate(experiment, folder_->file("data.h5"), {1, true});
    generate(Experiment::parse(study("viscosity = 0.05"), "thin.toml"), folder_->file("thin.h5"), {1, true});
    train(experiment, experiment.models[0], DataFile::open(folder_->file("data.h5")), model(),
          {1, true, false});
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string model() { return folder_->file("mac.safetensors"); }
  static test::ProgramResult mac(const std::string& arguments) {
    return test::run_program_in(folder_->path(), arguments + " --quiet");
  }
  static void expect_refused(const test::ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_NE(result.output.find("was trained with viscosity = 0.1, but in "), std::string::npos)
        << result.output;
    EXPECT_NE(result.output.find("it is 0.05"), std::string::npos) << result.output;
  }
  static void expect_warned(const test::ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_NE(result.output.find("warning: "), std::string::npos) << result.output;
    EXPECT_NE(result.output.find("was trained with viscosity = 0.1, but in "), std::string::npos)
        << result.output;
  }
  static test::ScratchFolder* folder_;
};
test::ScratchFolder* OtherParameters::folder_ = nullptr;

TEST_F(OtherParameters, AreInTheModelFile) {
  Model trained = load_model(model());
  EXPECT_EQ(trained_parameters(trained).at("viscosity"), "0.1");
  EXPECT_EQ(trained_parameters(trained).count("grid"), 0u) << "no parameter of the equations";
  EXPECT_EQ(to_text(trained_parameters(trained)), "modes = 3, viscosity = 0.1");
  // Files of before had only the experiment's text.
  const SystemParameters stored = trained_parameters(trained);
  EXPECT_EQ(trained.provenance.erase("system_parameters"), 1u);
  EXPECT_EQ(trained_parameters(trained), stored);
  trained.provenance.clear();
  EXPECT_TRUE(trained_parameters(trained).empty());
  save_model(trained, folder_->file("bare.safetensors"));
  EXPECT_EQ(mac("rollout @/bare.safetensors --data @/thin.h5 -o @/out.h5").exit_code, 0)
      << "nothing is known";
}

TEST_F(OtherParameters, AreRefusedByRolloutsUnlessAllowed) {
  EXPECT_EQ(mac("rollout @/mac.safetensors --data @/data.h5 -o @/out.h5").exit_code, 0);
  expect_refused(mac("rollout @/mac.safetensors --data @/thin.h5 -o @/other.h5"));
  EXPECT_FALSE(std::filesystem::exists(folder_->file("other.h5")));
  expect_warned(mac("rollout @/mac.safetensors --data @/thin.h5 --allow-other-parameters -o @/other.h5"));
}

TEST_F(OtherParameters, AreRefusedByPredictionsUnlessAllowed) {
  expect_refused(mac("predict @/mac.safetensors --input @/thin.h5 -o @/p.h5"));
  expect_warned(mac("predict @/mac.safetensors --input @/thin.h5 --allow-other-parameters -o @/p.h5"));
}

TEST_F(OtherParameters, AreRefusedByStudiesUnlessAllowed) {
  std::string text = study("viscosity = 0.05");
  text.resize(text.find("[[models]]"));
  test::write_bytes(folder_->file("taken.toml"),
                    text + "[[models]]\nname = \"mac\"\nfile = \"mac.safetensors\"\n");
  expect_refused(mac("run @/taken.toml -o @/run"));
  expect_warned(mac("run @/taken.toml -o @/run --allow-other-parameters"));
}

TEST_F(OtherParameters, AreRefusedOfBaselines) {
  const std::string ring =
      "[system]\nname = \"lorenz96\"\nJ = 4\nwarmup_steps = 100\n[data]\ndt = 0.005\nstride = "
      "2\n[data.train]\n"
      "trajectories = 1\nhorizon = 2.0\n";
  const Experiment experiment = Experiment::parse(ring, "ring.toml");
  generate(experiment, folder_->file("ring.h5"), {1, true});
  save_wilks(fit_wilks(DataFile::open(folder_->file("ring.h5")), 1), experiment, folder_->file("wilks.h5"),
             "wilks");
  std::string other = ring, longer = ring;
  other.replace(other.find("J = 4"), 5, "J = 4\nF = 9.0");
  longer.replace(longer.find("100"), 3, "200");
  EXPECT_THROW(check_trained_model(folder_->file("wilks.h5"), Experiment::parse(other, "other.toml"), false),
               UsageError);
  check_trained_model(folder_->file("wilks.h5"), Experiment::parse(other, "other.toml"), true);
  check_trained_model(folder_->file("wilks.h5"), Experiment::parse(longer, "longer.toml"), false);
}

}  // namespace
}  // namespace mac
