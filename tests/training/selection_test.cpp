// Which weights a training ends with, and what it ends by.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <mac/rollout.hpp>

#include "training/descent.hpp"
#include "training/normalise.hpp"
#include "training/small_training.hpp"
#include "training/training_run.hpp"
#include "training/validation.hpp"

namespace mac::test {
namespace {

Model trained(const std::string& training, const ScratchFolder& folder) {
  trained_bytes(training, folder.file("m.safetensors"));
  return load_model(folder.file("m.safetensors"));
}

// Learns, then shakes what it has learned.
const std::string learn_and_shake =
    "[[training.stages]]\nsteps = 150\nmax_lr = 1e-2\n"
    "[[training.stages]]\nsteps = 20\nmax_lr = 3\ndiv_factor = 1\nfinal_div_factor = 1\n";

TEST(Selection, KeepsTheWeightsWhoseRolloutsEvaluateBest) {
  const ScratchFolder folder;
  const Model model = trained(learn_and_shake, folder);
  EXPECT_LE(std::stoul(model.provenance.at("best_step")), 150u);
  const DataFile data = DataFile::open(small_data());
  rollout(*make_network_closure(model, "mac", *model.held), data, folder.file("r.h5"),
          {{"validation"}, 1, true});
  std::vector<RolloutFile> files;
  files.push_back(RolloutFile::open(folder.file("r.h5")));
  const SplitMetrics metrics = evaluate(std::move(files)).models.front().splits.at("validation");
  double mean = 0;
  for (const MeanStd& error : metrics.intervals.front().resolved) mean += error.mean / 6;
  // The same arithmetic; the mean is taken in another order.
  EXPECT_NEAR(std::stod(model.provenance.at("validation_rollout_error")), mean, 1e-12 * mean);
}

TEST(Selection, DoesNotCompareTheLossesOfTwoStages) {
  const ScratchFolder folder;
  // The root of a mean square below one is larger than the mean square: the second stage looks worse.
  const Model model = trained(
      "select = 'loss'\n[[training.stages]]\nsteps = 60\nloss_weights = 'none'\n"
      "[[training.stages]]\nsteps = 10\nloss_weights = 'relative'\n",
      folder);
  EXPECT_GT(std::stoul(model.provenance.at("best_step")), 60u);
}

TEST(Selection, ByLossLooksAtWindowsOfAllTrajectories) {
  /// Notes the batch that it is asked for.
  struct Spy final : Loss<double> {
    double evaluate(const double*, const Batch& asked, double*) override {
      batch = asked;
      return 0;
    }
    BatchForm form_of(std::size_t samples, SampleShape) const override { return {samples, samples}; }
    Batch batch;
  };
  const DataFile data = DataFile::open(small_data());
  const DataSplit split = data.split("validation");
  StagePlan stage;
  stage.window = 6;
  Spy spy;
  LossValidation(split, Target::instant, stage, split.times(), 4).error<double>(nullptr, spy);
  const std::size_t starts = split.times() - 5, windows = 3 * starts;
  ASSERT_EQ(spy.batch.count, 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t window = i * windows / 4;
    std::vector<double> expected(6 * 6);
    split.read_resolved(window / starts, window % starts, 6, expected.data());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                           spy.batch.resolved.begin() + static_cast<std::ptrdiff_t>(i * 36)));
  }
}

TEST(Horizon, IsAsGoodAsDataThatEndThere) {
  const ScratchFolder folder;
  std::string text = small_experiment("select = 'last'\n");
  const std::string whole = "[data.train]\ntrajectories = 12\nhorizon = 1\n",
                    part = "[data.train]\ntrajectories = 12\nhorizon = 0.4\n";
  const Experiment experiment =
      Experiment::parse(text.replace(text.find(whole), whole.size(), part), "small.toml");
  generate(experiment, folder.file("part.h5"), {1, true});
  const Model ends = train(experiment, experiment.models.at(0), DataFile::open(folder.file("part.h5")),
                           folder.file("part.safetensors"), {1, true, false})
                         .model;
  const Model model = trained("select = 'last'\nhorizon = 0.4\n", folder);
  EXPECT_EQ(model.normalisation.input_scale, ends.normalisation.input_scale);
  EXPECT_EQ(model.parameters, ends.parameters);
}

TEST(Averaging, ForgetsFastWhileItIsYoung) {
  EXPECT_DOUBLE_EQ(newest_share(0.99, 1), 10.0 / 11);
  EXPECT_DOUBLE_EQ(newest_share(0.99, 10), 0.5);
  EXPECT_DOUBLE_EQ(newest_share(0.9, 1000), 0.1);
}

TEST(Averaging, GoesOnInTheNextStage) {
  const ScratchFolder folder;
  // The second stage does not move the weights, so that the average comes closer to them by known factors.
  const std::string still = "[[training.stages]]\nsteps = 5\nmax_lr = 1e-30\n";
  const std::string begin = "precision = 'float64'\nselect = 'last'\n";
  const std::string move = "[[training.stages]]\nsteps = 20\n";
  const auto parameters = [&](const std::string& averaging, const std::string& stages) {
    std::string all = small_experiment(begin + stages);
    const std::string usual = "averaging = 0.9";
    const Experiment experiment =
        Experiment::parse(all.replace(all.find(usual), usual.size(), averaging), "small.toml");
    return train(experiment, experiment.models.at(0), DataFile::open(small_data()),
                 folder.file("m.safetensors"), {1, true, false})
        .model.parameters;
  };
  const auto weights = parameters("averaging = 0", move), young = parameters("averaging = 0.9", move),
             old = parameters("averaging = 0.9", move + still);
  double left = 1;
  for (std::size_t n = 21; n <= 25; ++n) left *= 1 - newest_share(0.9, n);
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_NEAR(old[i], weights[i] + left * (young[i] - weights[i]), 1e-14);  // rounding
}

TEST(Training, StepsAlongTheClippedGradient) {
  const ScratchFolder folder;
  // A gradient far below Adam's epsilon moves nothing.
  const Model model = trained(
      "precision = 'float64'\nselect = 'last'\noptimiser = 'adamw'\nweight_decay = 0\nclip = 1e-20\n"
      "[models.training]\naveraging = 0\n",
      folder);
  const std::vector<double> initial = initial_parameters(model.shape, 0);
  for (std::size_t i = 0; i < initial.size(); ++i) EXPECT_NEAR(model.parameters[i], initial[i], 1e-12);
}

TEST(Explosion, IsMeasuredByTheFirstLossOfTheStage) {
  const ScratchFolder folder;
  const Experiment experiment = Experiment::parse(small_experiment(), "small.toml");
  const DataFile data = DataFile::open(small_data());
  const InputMap inputs(*experiment.system);
  const Normalisation normalisation =
      fit_scales(data.split("train"), *experiment.system, inputs, Scaling::per_mode, Target::instant, 21)
          .network;
  const std::vector<double> start = initial_parameters(experiment.models.at(0).network->shape, 0);
  TrainingRun<float> run(experiment, experiment.models.at(0), data, inputs, normalisation, start,
                         folder.file("m.safetensors"), {});
  const auto count = [&](double loss, bool first) { run.count_step({loss, 1, 1e-3}, first); };
  count(1, true);
  count(9e3, false);
  EXPECT_TRUE(run.open());
  count(5, true);  // a stage with another loss
  count(4e4, false);
  EXPECT_TRUE(run.open());
  count(6e4, false);
  EXPECT_FALSE(run.open());
  EXPECT_NE(run.failure.find("at step 5 (loss 60000"), std::string::npos) << run.failure;
}

/// Writes one number of a series (trajectory, time, component).
void write_number(const std::string& path, const std::string& dataset, std::array<hsize_t, 3> at,
                  double value) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t series = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT), place = H5Dget_space(series);
  const std::array<hsize_t, 3> one{1, 1, 1};
  H5Sselect_hyperslab(place, H5S_SELECT_SET, at.data(), nullptr, one.data(), nullptr);
  const hid_t number = H5Screate_simple(3, one.data(), nullptr);
  ASSERT_GE(H5Dwrite(series, H5T_NATIVE_DOUBLE, number, place, H5P_DEFAULT, &value), 0);
  H5Sclose(number), H5Sclose(place), H5Dclose(series), H5Fclose(file);
}

/// What training says of small data of which one number is not finite.
std::string refusal_of(const std::string& dataset, double value, const std::string& training) {
  const ScratchFolder folder;
  const std::string path = folder.file("bad.h5");
  std::filesystem::copy_file(small_data(), path);
  write_number(path, dataset, {1, 5, 2}, value);
  const Experiment experiment = Experiment::parse(small_experiment(training), "small.toml");
  try {
    train(experiment, experiment.models.at(0), DataFile::open(path), folder.file("m.safetensors"),
          {1, true, false});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(BadNumbers, InTheDataAreNamedBeforeTrainingStarts) {
  for (const char* training : {"normalisation = 'max_abs'\n", "normalisation = 'mean_std'\n", ""}) {
    EXPECT_EQ(refusal_of("/train/resolved", NAN, training),
              "split train: phi3 is nan in trajectory 1 at t = 0.25");
    EXPECT_EQ(refusal_of("/train/closure", INFINITY, training),
              "split train: m3_phi is inf in trajectory 1 at t = 0.25");
  }
  for (const char* training : {"", "select = 'loss'\n"})
    EXPECT_EQ(refusal_of("/validation/resolved", NAN, training),
              "split validation: phi3 is nan in trajectory 1 at t = 0.25");
  EXPECT_EQ(refusal_of("/train/closure_mean", NAN, "target = 'mean'\n"),
            "split train: m3_phi is nan in trajectory 1 at t = 0.25");
}

}  // namespace
}  // namespace mac::test
