// recipe = "auto": what it tries, that it is the same bytes however it is run, and what it says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "training/budget_clock.hpp"
#include "training/fitted_equations.hpp"
#include "training/recorded_problem.hpp"
#include "training/small_training.hpp"
#include "training/trial.hpp"

namespace mac::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string quick = "d_model = 3\nblocks = 1\nd_state = 2\n[training]\nsteps = 12\nbatch = 4\n";

TrainingResult search(const RecordedProblem& problem, const std::string& data, const std::string& path,
                      const TrainOptions& options = {1, true, false}, const std::string& training = quick) {
  const Experiment experiment = problem.experiment(training);
  return train(experiment, experiment.models.at(0), DataFile::open(data), path, options);
}

TEST(AutoRecipe, IsTheDefaultWhereNobodyTunedTheSystem) {
  const RecordedProblem problem;
  EXPECT_EQ(problem.experiment("").models.at(0).network->training.recipe, "auto");
  EXPECT_EQ(problem.experiment("d_model = 4\nblocks = 1\nd_state = 2\n[training]\nselect = 'loss'\n")
                .models.at(0)
                .network->training.recipe,
            "fast");
  EXPECT_EQ(Experiment::parse(small_experiment(), "small.toml").models.at(0).network->training.recipe,
            "fast");
}

TEST(AutoRecipe, LeavesWhatTheExperimentSaysAlone) {
  const RecordedProblem problem;
  const TrainingPlan plan =
      problem.experiment("blocks = 1\n[training]\nnoise = 0.2\n").models.at(0).network->training;
  EXPECT_FALSE(is_open(plan, "noise"));
  EXPECT_FALSE(is_open(plan, "size"));
  EXPECT_TRUE(is_open(plan, "max_lr"));
}

TEST(AutoRecipe, ShortensSequencesButNotRollouts) {
  const RecordedProblem problem;
  const ModelPlan plan = problem.experiment(quick).models.at(0);
  const auto stages = with_settings(plan, {LayerKind::mamba, 0.1, 1e-3, 0, Rollouts::then, 7}, 12, 31, 0.1)
                          .network->training.stages;
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].window, 7u);
  EXPECT_EQ(stages[1].window, 0u) << "they start where the data do";
  EXPECT_TRUE(is_open(plan.network->training, "window"));
  EXPECT_FALSE(
      is_open(problem.experiment("[training]\nwindow = 9\n").models.at(0).network->training, "window"));
}

TEST(AutoRecipe, TriesKindsWhereTheExperimentLeavesThemOpen) {
  RecordedProblem problem;
  const ScratchFolder folder;
  problem.write(folder.file("data.h5"));
  problem.kind = "auto";
  const TrainingResult result = search(problem, folder.file("data.h5"), folder.file("m.safetensors"),
                                       {1, true, false}, "d_model = 3\nblocks = 1\n[training]\nsteps = 12\n");
  std::set<std::string> tried;
  const Json said = Json::parse(result.search);
  for (const Json& trial : said.at("trials")) tried.insert(trial.at("kind").get<std::string>());
  EXPECT_EQ(tried, (std::set<std::string>{"gru", "mamba"}));
  const Json& chosen = said.at("trials").at(said.at("chosen").get<std::size_t>());
  EXPECT_EQ(to_string(load_model(folder.file("m.safetensors")).shape.kind),
            chosen.at("kind").get<std::string>());
}

TEST(AutoRecipe, LeavesAKindOpenOnlyToASearch) {
  RecordedProblem problem;
  problem.kind = "auto";
  const std::pair<std::string, std::string> cases[]{
      {"d_model = 4\nblocks = 1\n[training]\nrecipe = 'fast'\nselect = 'loss'\n",
       "kind: is \"auto\", which only recipe = \"auto\" can decide"},
      {"d_state = 4\n", "d_state: is a size that not every kind has"}};
  for (const auto& [training, sentence] : cases) {
    try {
      problem.experiment(training);
      FAIL() << training;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(sentence), std::string::npos) << error.what();
    }
  }
}

TEST(AutoRecipe, LetsTrialsLearnFromTheFirstHalfAndJudgesThemOverAll) {
  const RecordedProblem problem;
  const ModelPlan plan = problem.experiment(quick).models.at(0);
  const auto half = [](const ModelPlan& of, std::size_t times) {
    return on_first_half(of, times, times, 0.1).network->training;
  };
  EXPECT_NEAR(half(plan, 101).stages[0].horizon, 4.9, 1e-12);
  EXPECT_NEAR(half(plan, 101).validation_horizon, 10, 1e-12);
  EXPECT_EQ(half(plan, 31).stages[0].horizon, 0) << "too short for it";
  ModelPlan windows = plan;
  windows.network->training.stages[0].window = 60;
  windows.network->training.history = 2;
  EXPECT_EQ(half(windows, 500).stages[0].window, 40u) << "half of what comes after the history";
  const ModelPlan given = problem.experiment("[training]\nwindow = 9\n").models.at(0);
  EXPECT_EQ(half(given, 101).stages[0].window, 9u);
  EXPECT_EQ(half(given, 101).stages[0].horizon, 0);
}

TEST(AutoRecipe, ShortensTheWholeTrainingToWhatTheBudgetHasRoomFor) {
  const RecordedProblem problem;
  const ScratchFolder folder;
  problem.write(folder.file("data.h5"));
  TrainOptions options{1, true, false};
  options.budget = 1e-9;
  const TrainingResult result =
      search(problem, folder.file("data.h5"), folder.file("m.safetensors"), options,
             "d_model = 3\nblocks = 1\nd_state = 2\n[training]\nsteps = 100000\nbatch = 2\n");
  EXPECT_EQ(result.steps, 600u) << "the one short trial";
  EXPECT_NE(result.table.find("time budget"), std::string::npos);
}

TEST(AutoRecipe, UsesWhatABudgetLeavesForLongerTrainings) {
  const RecordedProblem problem;
  const ScratchFolder folder;
  problem.write(folder.file("data.h5"));
  // Every training is said to have taken a second, so that what there is room for does not depend on the machine.
  fs::create_directory(folder.file("m.trials"));
  write_bytes(folder.file("m.trials/seconds.txt"), "1 1 1 1 1 1 1 1 1 1");
  TrainOptions options{1, true, true};
  options.budget = 10;
  const std::string training =
      "d_model = 2\nblocks = 1\nd_state = 1\n[training]\nsteps = 310\nbatch = 1\nnoise = 0\nmax_lr = "
      "4e-3\nloss = 'closure'\ntarget = 'instant'\n";
  const Json said = Json::parse(
      search(problem, folder.file("data.h5"), folder.file("m.safetensors"), options, training).search);
  std::vector<std::size_t> steps;
  for (const Json& trial : said.at("trials")) steps.push_back(trial.at("steps").get<std::size_t>());
  EXPECT_EQ(steps[0], 300u);
  for (std::size_t i = 2; i < steps.size(); ++i) EXPECT_EQ(steps[i], 2 * steps[i - 1]) << i;
  EXPECT_GT(steps.size(), 2u);
  EXPECT_LT(steps.size(), 10u);
}

TEST(AutoRecipe, TrainsTheBestOfAHeatInFull) {
  const RecordedProblem problem;
  const ScratchFolder folder;
  problem.write(folder.file("data.h5"));
  const TrainingResult result =
      search(problem, folder.file("data.h5"), folder.file("m.safetensors"), {1, true, false},
             "d_model = 3\nblocks = 1\nd_state = 2\n[training]\nsteps = 2400\nbatch = 2\nmax_lr = 4e-3\n");
  const Json said = Json::parse(result.search);
  std::vector<Json> heat, whole, short_trials;
  for (const Json& trial : said.at("trials"))
    (!trial.at("in_full").get<bool>()      ? short_trials
     : trial.at("steps").get<int>() == 600 ? heat
                                           : whole)
        .push_back(trial);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].at("steps").get<int>(), 2400);
  ASSERT_GE(heat.size(), 2u);
  EXPECT_LE(heat.size(), 3u);
  const auto by_error = [](const Json& a, const Json& b) {
    return a.at("error").get<double>() < b.at("error").get<double>();
  };
  const std::vector<const char*> settings{"kind", "noise", "max_lr", "d_model", "window"};
  const auto same = [&](const Json& a, const Json& b) {
    return std::ranges::all_of(settings, [&](const char* key) { return a.at(key) == b.at(key); });
  };
  EXPECT_TRUE(same(heat[0], *std::ranges::min_element(short_trials, by_error)));
  EXPECT_FALSE(same(heat[0], heat[1]));
  EXPECT_TRUE(same(whole[0], *std::ranges::min_element(heat, by_error)));
}

TEST(AutoRecipe, LearnsMeansOverAStepWhereTheExactClosureIsBetterHeldAsThem) {
  const RecordedProblem problem;  // 0.33 % off by its values, 0.027 % by its means
  const ScratchFolder folder;
  problem.write(folder.file("data.h5"));
  const auto learned = [&](const std::string& training) {
    const TrainingResult result = search(problem, folder.file("data.h5"), folder.file("m.safetensors"),
                                         {1, true, false}, quick + "noise = 0\nmax_lr = 4e-3\n" + training);
    EXPECT_EQ(result.table.find("mean over a step") == std::string::npos, !training.empty());
    return load_model(folder.file("m.safetensors")).held->target;
  };
  EXPECT_EQ(learned(""), Target::mean);
  EXPECT_EQ(learned("target = 'instant'\n"), Target::instant) << "as the experiment says";
}

TEST(AutoRecipe, TriesAFrameWhereTranslationsTurnTheModesUnlessItIsSaid) {
  const ScratchFolder folder;
  const auto frames = [&](const std::string& said) {
    std::string text = small_experiment("recipe = 'auto'\nmax_lr = 4e-3\n");
    text.replace(text.find("kind ="), 0, said);
    const Experiment experiment = Experiment::parse(text, "small.toml");
    const TrainingResult result = train(experiment, experiment.models.at(0), DataFile::open(small_data()),
                                        folder.file("m.safetensors"), {1, true, false});
    std::set<std::string> tried;
    const Json search = Json::parse(result.search);
    for (const Json& trial : search.at("trials")) tried.insert(trial.at("frame").get<std::string>());
    const Json& chosen = search.at("trials").at(search.at("chosen").get<std::size_t>());
    EXPECT_EQ(to_string(load_model(folder.file("m.safetensors")).inputs.frame),
              chosen.at("frame").get<std::string>());
    return tried;
  };
  EXPECT_EQ(frames(""), (std::set<std::string>{"none", "initial"}));
  EXPECT_EQ(frames("frame = 'none'\n"), (std::set<std::string>{"none"}));
  EXPECT_EQ(frames("frame = 'initial'\n"), (std::set<std::string>{"initial"}));
}

TEST(AutoRecipe, TakesMoreStepsWhereThereIsMoreToLearnFrom) {
  EXPECT_EQ(usual_steps(1, 100), 4000u);
  EXPECT_EQ(usual_steps(200, 50), 10000u);
  EXPECT_EQ(usual_steps(200, 100), 10000u);
  EXPECT_EQ(usual_steps(200, 400), 5000u) << "a step sees more of long sequences";
  EXPECT_EQ(usual_steps(400, 100), 16000u);
}

TEST(AutoRecipe, CutsLongTrajectoriesAndLetsRolloutsStartAnywhereInThem) {
  const RecordedProblem problem;
  ModelPlan plan = problem.experiment(quick).models.at(0);
  EXPECT_FALSE(starts_anywhere(plan.network->training));
  EXPECT_TRUE(has_longer_rollouts(plan.network->training, 1001, 0.1));
  EXPECT_FALSE(has_longer_rollouts(plan.network->training, 101, 0.1));
  const auto stages = [&](Rollouts rollouts) {
    return with_settings(plan, {LayerKind::mamba, 0.1, 1e-3, 0, rollouts, 0}, 800, 1001, 0.1)
        .network->training.stages;
  };
  EXPECT_NEAR(stages(Rollouts::then).at(1).horizon, 15, 1e-12);
  EXPECT_NEAR(stages(Rollouts::then_whole).at(1).horizon, 100, 1e-12);
  plan.network->training.stages[0].window = 250;
  EXPECT_TRUE(starts_anywhere(plan.network->training));
  EXPECT_FALSE(has_longer_rollouts(plan.network->training, 1001, 0.1));
  EXPECT_EQ(stages(Rollouts::then).at(1).window, 151u);
}

TEST(AutoRecipe, LearnsFromPiecesOfLongTrajectoriesAndJudgesAFewLongRollouts) {
  const RecordedProblem problem;
  const TrainingPlan open = problem.experiment("").models.at(0).network->training;
  const TrainingPlan whole = for_their_length(open, 80, 1001, 0.1);
  EXPECT_EQ(whole.stages[0].window, 0u);
  EXPECT_EQ(whole.stages[0].batch, 16u) << "of 16,000 times";
  EXPECT_EQ(whole.validation_horizon, 0) << "all of it";
  const TrainingPlan pieces = for_their_length(open, 1, 10001, 0.1);
  EXPECT_EQ(pieces.stages[0].window, 200u);
  EXPECT_EQ(pieces.stages[0].batch, 32u);
  EXPECT_EQ(pieces.stages[0].steps, 4000u);
  EXPECT_NEAR(pieces.validation_horizon, 100, 1e-12);
  EXPECT_EQ(pieces.validation_trajectories, 16u);
  const TrainingPlan given = for_their_length(
      problem
          .experiment(
              "[training]\nvalidation_trajectories = 30\nvalidation_horizon = 2\nsteps = 7\nbatch = 9\n")
          .models.at(0)
          .network->training,
      1, 10001, 0.1);
  EXPECT_EQ(given.validation_trajectories, 30u);
  EXPECT_EQ(given.validation_horizon, 2);
  EXPECT_EQ(given.stages[0].steps, 7u);
  EXPECT_EQ(given.stages[0].batch, 9u);
}

TEST(AutoRecipe, DoesTheSameWorkWithRolloutsAlone) {
  const RecordedProblem problem;
  ModelPlan plan = problem.experiment(quick).models.at(0);
  plan.network->training.stages[0].window = 250;
  const auto settled = [&](Rollouts rollouts) {
    return with_settings(plan, {LayerKind::mamba, 0, 4e-3, 0, rollouts, 0}, 2000, 10001, 0.1);
  };
  const ModelPlan alone = settled(Rollouts::alone);
  const auto& stages = alone.network->training.stages;
  ASSERT_EQ(stages.size(), 2u);
  for (const StagePlan& stage : stages) EXPECT_EQ(stage.loss, LossKind::rollout);
  EXPECT_LT(stages[0].rollout_steps, stages[1].rollout_steps);
  EXPECT_GT(stages[0].max_lr, stages[1].max_lr);
  const double work = training_work(settled(Rollouts::none), 10001, 0.1);
  EXPECT_NEAR(training_work(alone, 10001, 0.1) / work, 1, 0.02) << "whole steps";
}

TEST(BudgetClock, DecidesAfterAnInterruptionAsBefore) {
  const ScratchFolder folder;
  const std::string file = folder.file("seconds.txt");
  BudgetClock clock(file, 100);
  EXPECT_TRUE(clock.has_room_for(1e9)) << "before anything is known";
  clock.count(10, 20);  // two seconds a unit of work
  EXPECT_TRUE(clock.has_room_for(40));
  EXPECT_FALSE(clock.has_room_for(41));
  EXPECT_DOUBLE_EQ(clock.share_with_room(80), 0.5);
  EXPECT_TRUE(clock.has_room_for_trial(30, 10)) << "beside a whole training of 20 seconds";
  EXPECT_FALSE(clock.has_room_for_trial(31, 10));
  EXPECT_TRUE(clock.has_room_for_trial(6, 1e9))
      << "a third of the budget, where the whole does not fit anyway";
  EXPECT_FALSE(clock.has_room_for_trial(7, 1e9));
  clock.count(10, 20);
  BudgetClock again(file, 100);
  again.count(10, 0.001);  // a training that is done takes no time
  EXPECT_FALSE(again.has_room_for(41));
  again.count(10, 0.001);
  EXPECT_EQ(again.seconds(), clock.seconds());
  again.count(10, 60);  // a new one
  EXPECT_EQ(again.seconds(), 100);
  EXPECT_EQ(again.share_with_room(1), 0);
  EXPECT_TRUE(BudgetClock(file, 0).has_room_for(1e300)) << "without a budget";
}

TEST(AutoRecipe, RefusesSettingsThatItDecidesItself) {
  const RecordedProblem problem;
  for (const std::string training : {"select = 'loss'\n", "[[training.stages]]\nsteps = 3\n"}) {
    try {
      problem.experiment("[training]\nrecipe = 'auto'\n" + training);
      FAIL() << training;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("decides this itself"), std::string::npos) << error.what();
    }
  }
}

TEST(AutoRecipe, GivesTheSameBytesForAnyNumberOfThreadsAndLeavesNoTrials) {
  const RecordedProblem problem;
  const ScratchFolder folder;
  problem.write(folder.file("data.h5"));
  search(problem, folder.file("data.h5"), folder.file("one.safetensors"));
  search(problem, folder.file("data.h5"), folder.file("two.safetensors"), {2, true, false});
  EXPECT_EQ(read_bytes(folder.file("one.safetensors")), read_bytes(folder.file("two.safetensors")));
  EXPECT_EQ(folder.count(), 5u);  // data, and a model and a history each
}

TEST(AutoRecipe, SaysInTheModelWhatItTried) {
  const RecordedProblem problem;
  const ScratchFolder folder;
  problem.write(folder.file("data.h5"));
  const TrainingResult result = search(problem, folder.file("data.h5"), folder.file("m.safetensors"));
  const Model model = load_model(folder.file("m.safetensors"));
  EXPECT_EQ(model.recipe, "auto");
  const Json said = Json::parse(model.provenance.at("search"));
  EXPECT_GE(said.at("trials").size(), 6u);  // four of noise, two of the learning rate; the size is given
  const Json& chosen = said.at("trials").at(said.at("chosen").get<std::size_t>());
  for (const Json& trial : said.at("trials"))
    EXPECT_GE(trial.at("error").get<double>(), chosen.at("error").get<double>());
  EXPECT_EQ(chosen.at("error").get<double>(), result.best_validation);
  const Json& memoryless = said.at("memoryless");
  EXPECT_GT(memoryless.at("error").get<double>(), 0);
  EXPECT_LT(memoryless.at("error").get<double>(), 1e3)
      << "a share of the data's size, with lost rollouts at 2";
  std::vector<double> errors;
  for (const Json& trial : said.at("trials")) errors.push_back(trial.at("error").get<double>());
  EXPECT_NE(std::ranges::find(errors, memoryless.at("with_memory").get<double>()), errors.end())
      << "compared with a trial";
  EXPECT_NE(result.table.find("without memory"), std::string::npos);
  EXPECT_NE(said.at("equations").get<std::string>().find("fitted"), std::string::npos);
  EXPECT_NEAR(said.at("horizon").get<double>(), problem.dt * static_cast<double>(problem.times - 1), 1e-12)
      << "of the validation data";
  EXPECT_NEAR(said.at("beyond").get<double>(), 2 * said.at("horizon").get<double>(), 1e-12);
  const auto reason = said.at("reason").get<std::string>();
  EXPECT_TRUE(reason.starts_with("chosen: ")) << reason;
  EXPECT_NE(result.table.find(reason), std::string::npos) << result.table;
  EXPECT_NE(result.table.find("no closure"), std::string::npos);
}

TEST(AutoRecipe, GoesOnAfterAnInterruptionToTheSameBytes) {
  const RecordedProblem problem;
  const ScratchFolder folder;
  problem.write(folder.file("data.h5"));
  search(problem, folder.file("data.h5"), folder.file("whole.safetensors"));
  // A trial that is there already is taken as it is; one that is not finished goes on.
  fs::create_directory(folder.file("m.trials"));
  EXPECT_THROW(search(problem, folder.file("data.h5"), folder.file("m.safetensors")), UsageError);
  search(problem, folder.file("data.h5"), folder.file("m.safetensors"), {1, true, true});
  EXPECT_EQ(read_bytes(folder.file("whole.safetensors")), read_bytes(folder.file("m.safetensors")));
  // And the finished model is kept.
  const auto written = fs::last_write_time(folder.file("m.safetensors"));
  const TrainingResult kept =
      search(problem, folder.file("data.h5"), folder.file("m.safetensors"), {1, true, true});
  EXPECT_EQ(fs::last_write_time(folder.file("m.safetensors")), written);
  EXPECT_NE(kept.table.find("chosen: "), std::string::npos) << "says again what was tried";
}

TEST(AutoRecipe, WarnsWhereNothingIsBetterThanNoClosure) {
  RecordedProblem problem;
  problem.equations = "function";
  problem.closure_is_noise = true;  // of dx/dt = -x: the reduced model is exact, every closure makes it worse
  const ScratchFolder folder;
  problem.write(folder.file("data.h5"));
  Experiment experiment = problem.experiment(quick);
  experiment.system =
      with_reduced_rhs(experiment.system, [](std::size_t count, const double* y, double* dydt) {
        for (std::size_t i = 0; i < count; ++i) dydt[i] = -y[i];
      });
  const TrainingResult result =
      train(experiment, experiment.models.at(0), DataFile::open(folder.file("data.h5")),
            folder.file("m.safetensors"), {1, true, false});
  EXPECT_NE(result.warning.find("without a closure"), std::string::npos) << result.warning;
  EXPECT_NE(result.table.find("warning"), std::string::npos) << result.table;
  EXPECT_FALSE(Json::parse(result.search).at("better_than_none").get<bool>());
}

TEST(AutoRecipe, LeavesTrialsOutThatTheBudgetHasNoRoomFor) {
  const RecordedProblem problem;
  const ScratchFolder folder;
  problem.write(folder.file("data.h5"));
  TrainOptions options{1, true, false};
  options.budget = 1e-9;
  const TrainingResult result =
      search(problem, folder.file("data.h5"), folder.file("m.safetensors"), options);
  const Json said = Json::parse(result.search);
  EXPECT_EQ(said.at("trials").size(), 1u);
  EXPECT_TRUE(said.at("cut_by_budget").get<bool>());
}

TEST(FittedEquations, FindThePolynomialBehindTheData) {
  const RecordedProblem problem;
  const ScratchFolder folder;
  problem.write(folder.file("data.h5"));
  const Experiment experiment = problem.experiment("");
  const DataFile data = DataFile::open(folder.file("data.h5"));
  const auto fitted =
      fit_equations(experiment.system, data.split("train"), data.split("validation"), problem.dt);
  ASSERT_TRUE(fitted.has_value());
  EXPECT_LT(fitted->error, 0.02);  // differences of fourth order at a step of half the fast time
  for (const double x : {-0.5, 0.1, 0.4}) {
    double rate = 0;
    fitted->system->reduced_rhs(&x, &rate);
    EXPECT_NEAR(rate, -x, 0.02);
  }
}

}  // namespace
}  // namespace mac::test
