#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mac/error.hpp>
#include <mac/experiment.hpp>
#include <mac/model.hpp>

namespace mac::test {
namespace {

const std::string head = R"(
[system]
name = "burgers"
grid = 64
[data]
dt = 1e-3
stride = 10
[data.train]
trajectories = 4
horizon = 1
)";
const std::string mamba = R"(
[[models]]
name = "mac"
kind = "mamba"
d_model = 22
blocks = 4
d_state = 12
)";

TrainingPlan plan_of(const std::string& text) {
  return Experiment::parse(head + text, "test.toml").models.at(0).network->training;
}

std::string complaint(const std::string& text) {
  try {
    Experiment::parse(head + text, "test.toml");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(TrainingPlan, TakesTheFastRecipeUnlessToldOtherwise) {
  EXPECT_EQ(plan_of(mamba).recipe, "fast");
  EXPECT_EQ(plan_of(mamba).held.hold, Hold::linear);
  const TrainingPlan paper = plan_of(mamba + "[training]\nrecipe = 'paper'\n");
  EXPECT_EQ(paper.held.hold, Hold::zero);
  EXPECT_EQ(paper.stages.at(0).steps, 30000u);
  EXPECT_EQ(paper.stages.at(0).noise, 5e-4);
}

TEST(TrainingPlan, LaterSettingsOverrideEarlierOnes) {
  const TrainingPlan plan = plan_of(mamba + R"(
[models.training]
batch = 7
[training]
batch = 5
steps = 11
[[training.stages]]
max_lr = 1e-2
[[training.stages]]
loss = "rollout"
steps = 3
)");
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].batch, 7u);
  EXPECT_EQ(plan.stages[0].steps, 11u);
  EXPECT_EQ(plan.stages[0].max_lr, 1e-2);
  EXPECT_EQ(plan.stages[1].loss, LossKind::rollout);
  EXPECT_EQ(plan.stages[1].max_lr, 4e-3);
  EXPECT_EQ(plan.steps(), 14u);
}

TEST(TrainingPlan, RefusesWhatCannotBeMeant) {
  std::string gru = mamba;
  gru.replace(gru.find("mamba"), 5, "gru");
  EXPECT_NE(complaint(gru).find("models[0].d_state: is a size that a gru does not have"), std::string::npos)
      << complaint(gru);
  EXPECT_NE(complaint(mamba + "[training]\nlearning_rate = 1\n").find("training.learning_rate: unknown key"),
            std::string::npos);
  EXPECT_NE(complaint(mamba + "[training]\nloss = 'closures'\n").find("did you mean \"closure\""),
            std::string::npos);
  EXPECT_NE(
      complaint(mamba + "[training]\nvalidation_horizon = 1e-4\n").find("less than a step of the closure"),
      std::string::npos);
  EXPECT_NE(complaint(mamba + "[training]\nwindow = 500\n").find("101 usable times"), std::string::npos);
  EXPECT_NE(complaint(mamba + "[training]\nhorizon = 2\n").find("[data.train] ends at 1"), std::string::npos);
  EXPECT_NE(complaint(mamba + "[training]\nloss = 'rollout'\nwindow = 10\n").find("no room"),
            std::string::npos);
  EXPECT_NE(complaint(mamba + mamba).find("name of an earlier model"), std::string::npos);
  for (const char* models :
       {"", "[[models]]\nfile = 'a.safetensors'\n", "[[models]]\nkind = 'linear_memory'\n"})
    EXPECT_NE(
        complaint(models + std::string("[training]\nsteps = 5\n")).find("no network in [[models]] to train"),
        std::string::npos)
        << models;
  const std::string unknown = complaint("[[models]]\nkind = 'transformer'\nd_model = 3\n");
  EXPECT_NE(unknown.find("expected one of " + fmt::format("{}", fmt::join(layer_kind_names(), ", "))),
            std::string::npos)
      << unknown;
}

TEST(TrainingPlan, RefusesNamesThatAStudyGivesItself) {
  const std::string baseline = "[[models]]\nkind = 'linear_memory'\nname = ";
  for (const char* name : {"markov", "exact", "exact_linear"})
    EXPECT_NE(complaint(baseline + "'" + name + "'\n").find("is what every study calls"), std::string::npos)
        << name;
  EXPECT_NE(complaint("[[models]]\nfile = 'markov.h5'\n").find("is what every study calls"),
            std::string::npos);
  EXPECT_NE(
      complaint(baseline + "'mac-seed0'\n" + mamba).find("\"mac-seed0\" is what the network \"mac\" calls"),
      std::string::npos);
  EXPECT_EQ(complaint(baseline + "'mac-seeds'\n" + mamba), "");
  EXPECT_EQ(complaint("[[models]]\nfile = 'mac-seed0.safetensors'\n"), "") << "there is no other mac";
}

TEST(TrainingPlan, KnowsAModelThatIsTrainedAlready) {
  EXPECT_NE(
      complaint("[[models]]\nfile = 'a.safetensors'\nkind = 'mamba'\n").find("models[0].kind: a model with"),
      std::string::npos)
      << complaint("[[models]]\nfile = 'a.safetensors'\nkind = 'mamba'\n");
  EXPECT_NE(complaint("[[models]]\nfile = 'a.pt'\n").find("expected a model: NAME.safetensors"),
            std::string::npos);
  EXPECT_NE(complaint("[[models]]\nfile = 'a.safetensors'\nd_model = 3\n").find("unknown key"),
            std::string::npos);
}

TEST(TrainingPlan, SaysItselfTheSameWayEveryTime) {
  EXPECT_EQ(to_text(plan_of(mamba)), to_text(plan_of(mamba)));
  EXPECT_NE(to_text(plan_of(mamba)), to_text(plan_of(mamba + "[training]\nclip = 2\n")));
}

// The text is part of checkpoints and of the hashes by which mac run knows what is done: new settings must
// not change that of old plans.
TEST(TrainingPlan, SaysItselfAsTheFilesOfTheZooDo) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MAC_SOURCE_FOLDER "/zoo")) {
    if (entry.path().extension() != ".safetensors") continue;
    const Model model = load_model(entry.path().string());
    if (model.shape.members > 1) continue;  // the text is that of its first network
    const Experiment experiment = Experiment::parse(model.provenance.at("experiment"), "zoo.toml");
    for (ModelPlan plan : experiment.models) {
      if (plan.name != model.provenance.at("name")) continue;
      plan.network->training.seed = std::stoul(model.provenance.at("seed"));
      EXPECT_EQ(to_text(plan.network->training), model.provenance.at("training")) << entry.path();
      ++files;
    }
  }
  EXPECT_EQ(files, 25u);
}

TEST(TrainingPlan, SaysNewerSettingsOnlyWhereTheyAreSet) {
  EXPECT_NE(to_text(plan_of(mamba + "[training]\npatience = 3\n")).find("\npatience = 3\n"),
            std::string::npos);
  EXPECT_EQ(to_text(plan_of(mamba)).find("patience"), std::string::npos);
}

TEST(TrainingPlan, FindsTheStartingWeightsBesideTheExperiment) {
  const Experiment experiment = Experiment::parse(
      head + mamba + "[training]\ninit = '../zoo/a.safetensors'\n", "studies/burgers/test.toml");
  EXPECT_EQ(experiment.models.at(0).network->training.init_file, "studies/zoo/a.safetensors");
  EXPECT_NE(complaint(mamba + "[training]\ninit = 'a.h5'\n").find("training.init: is \"a.h5\""),
            std::string::npos);
}

TEST(TrainingPlan, HasNoPatienceWithoutValidations) {
  EXPECT_NE(
      complaint(mamba + "[training]\npatience = 3\nselect = 'last'\n").find("training.patience: counts"),
      std::string::npos);
}

TEST(TrainingPlan, KnowsTheKeyThatWasMeant) {
  EXPECT_NE(complaint(mamba + "[training]\nvalidate_evry = 5\n").find("did you mean \"validate_every\""),
            std::string::npos);
  EXPECT_NE(complaint(mamba + "[training]\n[[training.stages]]\nmaxlr = 5\n").find("did you mean \"max_lr\""),
            std::string::npos);
  EXPECT_NE(complaint(mamba + "dstate = 5\n").find("did you mean \"d_state\""), std::string::npos);
}

TEST(TrainingPlan, NamesWhatASettingMayBe) {
  EXPECT_NE(
      complaint(mamba + "[training]\nmax_lr = 0\n").find("training.max_lr: is 0, expected a number > 0"),
      std::string::npos);
  EXPECT_NE(complaint(mamba + "[training]\nbatch = 0\n").find("is 0, expected an integer in [1, 1000000000]"),
            std::string::npos);
  EXPECT_NE(complaint(mamba + "[training]\naveraging = 1\n").find("expected a number in [0, 0.999999]"),
            std::string::npos);
  EXPECT_NE(complaint("[[models]]\nkind = 'gru'\nblocks = 2\n").find("models[0].d_model: is missing"),
            std::string::npos);
}

const std::string score = "[training]\nloss = 'crps'\nrollout_steps = 5\nwindow = 8\n";

TEST(TrainingPlan, ReadsNoiseOfAStochasticNetwork) {
  const auto network =
      Experiment::parse(head + mamba + "noise_channels = 3\nnoise_time = 0.5\n" + score, "test.toml")
          .models.at(0)
          .network.value();
  EXPECT_EQ(network.noise, (NoiseInputs{3, 0.5}));
  EXPECT_EQ(network.shape.d_in, 6u + 3u);
  EXPECT_EQ(network.training.stages.at(0).members, 4u);
  EXPECT_EQ(Experiment::parse(head + "[rollout]\nmembers = 7\n", "test.toml").rollout.members, 7u);
  // What is not said leaves the text of a plan as it was before there were members.
  EXPECT_EQ(to_text(plan_of(mamba)).find("members"), std::string::npos);
}

TEST(TrainingPlan, RefusesNoiseAndScoresThatDoNotFit) {
  struct Case {
    std::string text, message;
  };
  for (const auto& [text, message] : std::vector<Case>{
           {mamba + score, "the loss \"crps\" scores a stochastic network: give it noise_channels"},
           {mamba + "noise_channels = 3\n", "noise_channels: a network that reads noise is trained by"},
           {mamba + "noise_time = 0.5\n", "noise_time: is that of noise"},
           {mamba + "noise_channels = -1\n" + score, "noise_channels"},
           {mamba + "deviations = true\nnoise_channels = 3\n" + score, "noise_channels: with deviations"},
           {mamba + "[training]\nloss = 'likelihood'\n", "say deviations = true"},
           {mamba + "noise_channels = 3\n[training]\nloss = 'likelihood'\n", "say deviations = true"},
           {mamba + "deviations = true\n", "with deviations also by \"likelihood\""},
           {mamba + "noise_channels = 3\nnoise_time = -1\n" + score, "noise_time"},
           {mamba + "noise_channels = 3\n" + score + "members = 1\n", "members"},
           {mamba + "noise_channels = 3\n[training]\nrecipe = 'auto'\nloss = 'crps'\n", "noise_channels"},
           {mamba + "noise_channels = 3\n[training]\nloss = 'crps'\nrollout_steps = 8\nwindow = 8\n",
            "rollout_steps"},
           {"[rollout]\nmembers = 0\n", "members"},
           {"[rollout]\nmember = 4\n", "member"}})
    EXPECT_NE(complaint(text).find(message), std::string::npos) << complaint(text) << " lacks " << message;
}

}  // namespace
}  // namespace mac::test
