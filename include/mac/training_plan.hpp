// What an experiment says about its models: the entries of [[models]] and how [training] trains them.
#pragma once

#include <cstdint>
#include <mac/hold.hpp>
#include <mac/network.hpp>
#include <mac/network_inputs.hpp>
#include <mac/noise.hpp>
#include <mac/precision.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mac {

class ConfigTable;
class System;
struct DataPlan;

/// What is compared with the data: the predicted closure, or the resolved variables one or several coupled
/// steps on; of a network that reads noise, the distribution of the latter, by a proper score of several runs.
/// likelihood: of the closure, for a network that predicts deviations.
enum class LossKind { closure, step, rollout, crps, energy, likelihood };

/// Whether a loss reads the data's closures, along the data.
inline bool compares_closures(LossKind loss) {
  return loss == LossKind::closure || loss == LossKind::likelihood;
}

/// Whether a loss scores the distribution of a stochastic model.
inline bool is_score(LossKind loss) { return loss == LossKind::crps || loss == LossKind::energy; }

/// Rollout losses: what the network reads after s steps. sequence: the sequence of all s-step predictions,
/// from an empty memory (the paper). autoregressive: each starting state goes on from its own memory of the
/// data that led to it, as a rollout does.
enum class RolloutForm { sequence, autoregressive };

/// Rollout losses: how far the gradient goes back through the coupled steps. full: all of it. identity: the reduced
/// right-hand side counts as independent of the state, so that a step hands on the gradient of its state as it is.
/// network: the states that a run passes through count as data; what is left goes through the network and its memory.
/// The last two need no derivative of the right-hand side.
enum class RolloutGradient { full, identity, network };

/// max_abs: each component by its largest value. mean_std: each by mean and standard deviation. per_mode: one
/// scale for all components that the system's symmetries mix (a Fourier mode, a ring of variables).
enum class Scaling { max_abs, mean_std, per_mode };

/// How errors of the closure count. none: every normalised component the same. effect: by what it does to its
/// resolved variable, relative to that variable's size in the data. relative: the root mean square over each
/// sequence, relative to the size of the resolved variable in that sequence, as tables of relative errors
/// count.
enum class LossWeights { none, effect, relative };

/// How the steps of the runs that a score compares with the data count: all the same, so that the late ones, whose errors
/// are large, decide; or step s as 1/s, for errors grow about as s.
enum class LeadWeights { equal, inverse };

/// How a gradient becomes a step: AdamW, or SOAP, which takes Adam's step in the eigenbases of the gradients'
/// covariances; or L-BFGS, quasi-Newton steps with a line search on one batch that stays the same.
enum class OptimiserKind { adamw, soap, lbfgs };

/// Which weights become the model: those with the least validation loss, those with the least error of a free
/// rollout over validation data, or the last.
enum class Selection { loss, rollout, last };

/// A run of optimiser steps under one one-cycle schedule.
struct StagePlan {
  LossKind loss = LossKind::closure;
  std::size_t rollout_steps = 10;
  RolloutForm rollout_form = RolloutForm::sequence;
  RolloutGradient rollout_gradient = RolloutGradient::full;
  LossWeights loss_weights = LossWeights::none;
  std::size_t members = 4;  // runs that a score compares with the data
  LeadWeights lead_weights = LeadWeights::equal;

  OptimiserKind optimiser = OptimiserKind::adamw;
  std::size_t steps = 30000;
  std::size_t batch = 96;
  double max_lr = 1.5e-3;
  double warmup_fraction = 0.12;
  double div_factor = 50;
  double final_div_factor = 800;
  bool cycle_momentum = true;
  double weight_decay = 1e-4;
  double clip = 0;  // largest norm of a gradient; 0: any

  double noise = 5e-4;      // standard deviation, of the normalised input
  double noise_from = 0.1;  // share of the steps after which noise starts ...
  double noise_to = 0.8;    // ... and ends
  bool augmentation = false;
  std::size_t window = 0;  // length of the sequences; 0: whole trajectories
  std::size_t sites = 0;   // of a local network, drawn for each sample of a closure loss; 0: all
  double horizon = 0;      // only times up to here are used; 0: all
};

struct TrainingPlan {
  std::string recipe = "paper";
  HeldClosure held;
  Scaling normalisation = Scaling::max_abs;
  Precision precision = Precision::float32;
  std::string init;  // model whose weights training starts from, as the experiment names it; empty: random
  std::string init_file;  // the same, as seen from here
  double averaging = 0;   // decay of the exponential average of the weights; 0: none
  Selection select = Selection::loss;
  std::size_t validate_every = 500;
  std::size_t validation_trajectories = 50;
  double validation_horizon = 0;  // length of a validation rollout; 0: as long as the trajectories trained on
  std::size_t patience = 0;       // validations without a better one after which a stage ends; 0: never
  /// Validation rollouts go on for this many times their horizon, without data: those that stray from the
  /// data's range count as lost.
  double validation_beyond = 0;
  double history = 0;  // length of the true past that is read before errors count and rollouts run free
  std::size_t checkpoint_every = 1000;
  std::uint64_t seed = 0;
  double memory = 1;  // GB of training data kept in memory (a device's own); more is read as needed
  std::vector<StagePlan> stages;
  std::set<std::string> given = {};  // what the experiment says itself, which recipe = "auto" leaves alone

  std::size_t steps() const;  // of all stages
};

/// A closure network and its training.
struct NetworkPlan {
  NetworkShape shape;  // its last inputs are the noise
  NetworkInputs inputs;
  NoiseInputs noise;
  TrainingPlan training;
};

/// A closure of mac/baselines.hpp as its kind has read it (src/experiment/baseline_kinds.hpp).
class BaselinePlan;

/// One entry of [[models]]: exactly one of network, baseline and file; `kind` says which.
struct ModelPlan {
  std::string name;
  std::string kind;  // of network or baseline ("mamba", "wilks"), or "file"
  std::optional<NetworkPlan> network;
  std::shared_ptr<const BaselinePlan> baseline;
  /// A model that is trained already: its file, as seen from the experiment's folder. Whether it is there and
  /// fits the data is known only when it is used (ude/mac/open_model.hpp).
  std::optional<std::string> file = std::nullopt;
};

/// Reads [[models]] and [training]. Settings come, the later the stronger, from the recipe, [training],
/// [models.training], [[training.stages]].
std::vector<ModelPlan> read_models(const ConfigTable& experiment, const System& system, const DataPlan& data);

/// The file of a model in a folder: NAME-seedN.safetensors for a network, NAME.h5 for a baseline, NAME with
/// its own extension for a trained one.
std::string model_file_name(const ModelPlan& plan);

/// Every setting as "key = value" lines: the same plan gives the same text.
std::string to_text(const TrainingPlan& plan);

}  // namespace mac
