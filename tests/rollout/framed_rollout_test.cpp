// Networks that see Fourier modes in the frame of the initial state, from the experiment to the rollout.
#include <gtest/gtest.h>

#include <mac/error.hpp>
#include <mac/experiment.hpp>
#include <mac/model.hpp>
#include <mac/open_model.hpp>
#include <mac/rollout.hpp>

#include "coupling/fourier_frame.hpp"
#include "io/hdf5.hpp"
#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

constexpr std::size_t modes = 3, d = 2 * modes;

std::string study(const std::string& of_model = "frame = \"initial\"\n",
                  const std::string& system = "burgers") {
  return "[system]\nname = \"" + system + "\"\n" + (system == "burgers" ? "grid = 32\n" : "") +
         "[data]\ndt = 1e-3\nstride = 10\n"
         "[data.train]\ntrajectories = 4\nhorizon = 0.3\n[data.validation]\ntrajectories = 2\nhorizon = 0.3\n"
         "[data.test]\ntrajectories = 3\nhorizon = 0.2\n"
         "[[models]]\nname = \"framed\"\nkind = \"mamba\"\nd_model = 4\nblocks = 1\nd_state = 2\n" +
         of_model +
         "[training]\nsteps = 4\nbatch = 2\nvalidate_every = 2\n"
         "[[training.stages]]\n[[training.stages]]\nloss = \"rollout\"\nrollout_steps = 3\nwindow = 8\n";
}

class FramedRollout : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::ScratchFolder;
    test::write_bytes(file("study.toml"), study());
    generate(Experiment::parse(study(), "study.toml"), file("data.h5"), {1, true});
    const auto trained = mac("train @/study.toml --data @/data.h5 -o @/framed.safetensors --threads 1");
    ASSERT_EQ(trained.exit_code, 0) << trained.output;
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string file(const std::string& name) { return folder_->file(name); }
  static test::ProgramResult mac(const std::string& arguments) {
    return test::run_program_in(folder_->path(), arguments + " --quiet");
  }
  static test::ScratchFolder* folder_;
};
test::ScratchFolder* FramedRollout::folder_ = nullptr;

TEST_F(FramedRollout, TheFileSaysSoAndKeepsReadersOfTheFirstFormatAway) {
  const Model model = load_model(file("framed.safetensors"));
  EXPECT_EQ(model.inputs, (NetworkInputs{{}, {}, {}, {}, Frame::initial}));
  const auto metadata = Safetensors::read(file("framed.safetensors")).metadata();
  EXPECT_EQ(metadata.at("frame"), "initial");
  EXPECT_EQ(metadata.at("format_version"), "2");
  const auto info = mac("info @/framed.safetensors");
  EXPECT_NE(info.output.find("turned by the phase of the first state"), std::string::npos) << info.output;
}

// In the frame of a trajectory that of its first state is real and positive.
TEST_F(FramedRollout, TheRangeOfTrainingIsThatOfStatesInTheirFrames) {
  const Model model = load_model(file("framed.safetensors"));
  const DataFile data = DataFile::open(file("data.h5"));
  const DataSplit train = data.split("train");
  double least = 1e9;
  for (std::size_t i = 0; i < train.trajectories(); ++i) {
    std::vector<double> y(train.times() * d);
    train.read_resolved(i, 0, train.times(), y.data());
    enter_frame(modes, y.data(), y.data(), train.times(), d);
    for (std::size_t t = 0; t < train.times(); ++t) least = std::min(least, y[t * d]);
  }
  ASSERT_TRUE(model.training_range);
  EXPECT_EQ(model.training_range->input_low[0], least);
}

void expect_moved_closures(const std::string& network, const std::string& data_file) {
  const DataFile data = DataFile::open(data_file);
  const DataSplit split = data.split("test");
  const auto model = open_model({network, "", {}, {}, Precision::float64}, data);
  const auto here = model->start(split, 0, 3), there = model->start(split, 0, 3);
  std::vector<double> factors(d), y(3 * d), closure(3 * d), moved_closure(3 * d);
  fourier_factors(modes, 2.1, factors.data());
  for (std::size_t t = 0; t < split.times(); ++t) {
    for (std::size_t i = 0; i < 3; ++i) split.read_resolved(i, t, 1, y.data() + i * d);
    std::vector<double> moved = y;
    for (std::size_t i = 0; i < 3; ++i) turn_modes(modes, factors.data(), moved.data() + i * d);
    here->predict(t, y.data(), closure.data());
    there->predict(t, moved.data(), moved_closure.data());
    for (std::size_t i = 0; i < 3; ++i) turn_modes(modes, factors.data(), closure.data() + i * d);
    for (std::size_t k = 0; k < closure.size(); ++k) ASSERT_NEAR(moved_closure[k], closure[k], 1e-14);
  }
}

TEST_F(FramedRollout, MovedStatesHaveMovedClosuresWhateverTheGroup) {
  expect_moved_closures(file("framed.safetensors"), file("data.h5"));
}

TEST_F(FramedRollout, OfEquationsAsTextMovesItsClosuresToo) {
  const std::string text = test::read_bytes(std::string(MAC_EXPERIMENTS) + "/equations/burgers.toml"),
                    rest = study();
  test::write_bytes(file("text.toml"),
                    text.substr(0, text.find("[data]")) + rest.substr(rest.find("[data]")));
  for (const char* command : {"generate @/text.toml -o @/text.h5",
                              "train @/text.toml --data @/text.h5 -o @/text.safetensors --threads 1",
                              "rollout @/text.safetensors --data @/text.h5 -o @/text-rollout.h5",
                              "report --rollouts @/text-rollout.h5 --data @/text.h5 -o @/text.html"}) {
    const auto done = mac(command);
    ASSERT_EQ(done.exit_code, 0) << command << "\n" << done.output;
  }
  expect_moved_closures(file("text.safetensors"), file("text.h5"));
  // One scale for both parts of a mode.
  const Model model = load_model(file("text.safetensors"));
  for (std::size_t k = 0; k < modes; ++k)
    EXPECT_EQ(model.normalisation.input_scale[k], model.normalisation.input_scale[modes + k]);
}

TEST_F(FramedRollout, PredictionsAlongDataAreTheRolloutsToTheLastBit) {
  const auto result = mac("predict @/framed.safetensors --input @/data.h5 -o @/predicted.h5 --mode step");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const DataFile data = DataFile::open(file("data.h5"));
  const DataSplit split = data.split("test");
  const auto model = open_model({file("framed.safetensors"), "", {}, {}}, data);
  const auto group = model->start(split, 0, 3);
  const std::vector<double> predicted =
      h5::File::open(file("predicted.h5")).dataset("/test/closure").read_all();
  const std::size_t times = predicted.size() / (3 * d);
  std::vector<double> y(3 * d), closure(3 * d);
  for (std::size_t t = 0; t < times; ++t) {
    for (std::size_t i = 0; i < 3; ++i) split.read_resolved(i, t, 1, y.data() + i * d);
    group->predict(t, y.data(), closure.data());
    for (std::size_t k = 0; k < closure.size(); ++k)
      ASSERT_EQ(predicted[(k / d * times + t) * d + k % d], closure[k]) << t << " " << k;
  }
}

TEST_F(FramedRollout, AContinuedOneKeepsItsFrame) {
  for (const char* hold : {"linear", "stage"}) {
    const std::string options = " --data @/data.h5 --hold " + std::string(hold);
    if (hold == std::string("stage") &&
        load_model(file("framed.safetensors")).held.value_or(HeldClosure{}).target == Target::mean)
      continue;
    const std::string model = "rollout @/framed.safetensors" + options;
    ASSERT_EQ(mac(model + " -o @/whole.h5 --to 0.2").exit_code, 0);
    ASSERT_EQ(mac(model + " -o @/first.h5 --to 0.07").exit_code, 0);
    const auto second = mac(model + " -o @/second.h5 --to 0.2 --from @/first.h5");
    ASSERT_EQ(second.exit_code, 0) << second.output;
    const auto last = [&](const char* name) {
      const RolloutSplit split = RolloutFile::open(file(name)).splits.front();
      return std::vector(split.resolved.end() - d, split.resolved.end());
    };
    EXPECT_EQ(last("second.h5"), last("whole.h5")) << hold;
  }
}

TEST_F(FramedRollout, OnACudaDeviceReadsVariablesThemselvesOnly) {
  test::write_bytes(file("products.toml"),
                    study("inputs = { state = [\"phi1\", \"psi1 - phi2\", \"psi3*phi1\"] }\n"));
  const auto trained = mac("train @/products.toml --data @/data.h5 -o @/products.safetensors --threads 1");
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const auto rolled = mac("rollout @/products.safetensors --data @/data.h5 -o @/no.h5 --device cuda");
  EXPECT_EQ(rolled.exit_code, 2) << rolled.output;
  EXPECT_NE(
      rolled.output.find("reads psi1 - phi2, and a CUDA device rolls out with variables themselves only: "
                         "use --device cpu"),
      std::string::npos)
      << rolled.output;
}

TEST_F(FramedRollout, AnotherFrameIsNoStartForATraining) {
  std::string text = study("");
  text.replace(text.find("[training]\n"), 11, "[training]\ninit = \"" + file("framed.safetensors") + "\"\n");
  test::write_bytes(file("plain.toml"), text);
  const auto result = mac("train @/plain.toml --data @/data.h5 -o @/plain.safetensors --threads 1");
  EXPECT_NE(result.output.find("sees its states in the frame \"initial\", [[models]] says \"none\""),
            std::string::npos)
      << result.output;
}

TEST_F(FramedRollout, MistakesInTheExperimentAreNamed) {
  const struct {
    std::string text;
    const char* part;
  } cases[] = {
      {study("frame = \"moving\"\n"), "frame: is \"moving\""},
      {study("frame = \"initial\"\n", "lorenz96"), "frame: the system lorenz96 is no field"},
      {study("frame = \"initial\"\ninputs = { state = [\"phi1\"] }\n"),
       "frame: the frame \"initial\" turns all"},
      {study("frame = \"initial\"\nnoise_channels = 2\n"), "leave out local, frame and [models.inputs]"},
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
  EXPECT_EQ(Experiment::parse(study("frame = \"none\"\n"), "study.toml").models[0].network->inputs,
            NetworkInputs{});
}

}  // namespace
}  // namespace mac
