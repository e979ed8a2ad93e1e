#include "training/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <nlohmann/json.hpp>

#include "training/search_account.hpp"

namespace mac {

namespace {

// The stage of rollouts: its steps and learning rate relative to the stage before, and its longest rollouts:
// gradients through longer ones say little where the flow is chaotic.
constexpr std::size_t rollout_share = 8, longest_rollout = 150;
constexpr double rollout_lr = 0.075;
// Nothing but rollouts: short ones of twice the batch, then those of a stage of rollouts, each for half of the work.
constexpr std::size_t short_rollout = 50;
constexpr double short_rollout_lr = 0.75, alone_lr = 0.25;
constexpr std::size_t steps_a_sequence = 50, fewest_steps = 4000, most_steps = 16000,  // of a whole training,
    short_sequence = 100;  // where sequences have so many times
constexpr std::size_t longest_whole =
    1000;  // steps of a trajectory, up to which it is learned from as a whole; else ...
constexpr std::size_t window_of_long = 200,         // ... times of a sequence,
    rollout_of_long = 1000, rollouts_of_long = 16;  // steps of a judged rollout, and their number
constexpr std::size_t most_in_batch = 16000;        // times of all sequences of a batch
constexpr std::size_t validations = 32;             // of a whole training, by rollouts, ...
constexpr std::size_t validation_pause = 100;  // ... of a short one after so many steps: they take their time
constexpr std::size_t shortest_half = 16;      // times that a trial learns from at least
// A step of a rollout loss, and a step of a network with a scan, relative to a plain one of as many weights.
constexpr double rollout_cost = 5, scan_cost = 3;

NetworkShape resized(NetworkShape shape, int size) {
  const auto scaled = [&](std::size_t n) { return size < 0 ? std::max<std::size_t>(2, n / 2) : 2 * n; };
  if (size == 0) return shape;
  shape.d_model = scaled(shape.d_model);
  if (size > 0 && shape.d_state > 0) shape.d_state = scaled(shape.d_state);
  return shape;
}

/// With the same width; what a kind has no use for is dropped.
NetworkShape of_kind(NetworkShape shape, LayerKind kind) {
  shape.kind = kind;
  if (!has_states(kind)) shape.d_state = 0;
  return shape;
}

std::size_t past_times(const TrainingPlan& training, double dt) {
  return static_cast<std::size_t>(std::lround(training.history / dt));
}

/// In multiply-adds of the network for each of its weights.
double stage_work(const StagePlan& stage, std::size_t times, double dt) {
  std::size_t length = stage.window > 0 ? stage.window : times;
  if (stage.horizon > 0)
    length = std::min(length, static_cast<std::size_t>(std::lround(stage.horizon / dt)) + 1);
  return static_cast<double>(stage.steps * stage.batch * length) *
         (stage.loss == LossKind::rollout ? rollout_cost : 1);
}

/// Of a trajectory's `times`, those that the first stage learns from.
std::size_t learned_times(const TrainingPlan& training, std::size_t times, double dt) {
  const double horizon = training.stages.front().horizon;
  return horizon > 0 ? std::min(times, static_cast<std::size_t>(std::lround(horizon / dt)) + 1) : times;
}

/// Free rollouts of at most `longest` steps.
StagePlan rollout_stage(const StagePlan& stage, const TrainingPlan& training, std::size_t longest,
                        bool anywhere, std::size_t times, double dt) {
  const std::size_t history = past_times(training, dt), intervals = learned_times(training, times, dt) - 1;
  StagePlan rollout = stage;
  rollout.loss = LossKind::rollout;
  rollout.rollout_form = RolloutForm::autoregressive;
  rollout.rollout_steps = std::min(longest, intervals - history);
  // Rollouts start where the data do: there the hidden variables are what they are at the start of a rollout. After a
  // history, and where sequences are cut from long trajectories, they may start anywhere.
  const std::size_t length = history + rollout.rollout_steps;
  rollout.window = 0;
  if (anywhere)
    rollout.window = length + 1;
  else
    rollout.horizon = dt * static_cast<double>(length);
  rollout.noise = 0;
  return rollout;
}

/// As many as do the same work as `share` of a closure loss.
std::size_t steps_of_work(const StagePlan& rollout, const StagePlan& closure, double share, std::size_t times,
                          double dt) {
  const double work = share * stage_work(closure, times, dt);
  StagePlan one = rollout;
  one.steps = 1;
  return std::max<std::size_t>(1, static_cast<std::size_t>(work / stage_work(one, times, dt)));
}

}  // namespace

ModelPlan with_settings(const ModelPlan& plan, const TrialSettings& settings, std::size_t steps,
                        std::size_t times, double dt) {
  ModelPlan changed = plan;
  NetworkPlan& network = *changed.network;
  TrainingPlan& training = network.training;
  const bool anywhere = starts_anywhere(training);
  network.shape = resized(of_kind(network.shape, settings.kind), settings.size);
  changed.kind = to_string(settings.kind);
  network.inputs.frame = settings.frame;
  training.stages.resize(1);
  StagePlan& stage = training.stages.front();
  stage.noise = settings.noise;
  stage.max_lr = settings.max_lr;
  stage.steps = steps;
  if (settings.window > 0) stage.window = settings.window;
  if (settings.rollouts == Rollouts::then || settings.rollouts == Rollouts::then_whole) {
    const std::size_t longest = settings.rollouts == Rollouts::then ? longest_rollout : times;
    StagePlan rollout = rollout_stage(stage, training, longest, anywhere, times, dt);
    rollout.steps = std::max<std::size_t>(1, steps / rollout_share);
    rollout.max_lr = rollout_lr * settings.max_lr;
    training.stages.push_back(rollout);
  }
  if (settings.rollouts == Rollouts::alone) {
    StagePlan first = rollout_stage(stage, training, short_rollout, anywhere, times, dt),
              second = rollout_stage(stage, training, longest_rollout, anywhere, times, dt);
    first.batch = 2 * stage.batch;
    first.max_lr = short_rollout_lr * settings.max_lr;
    second.max_lr = alone_lr * settings.max_lr;
    first.steps = steps_of_work(first, stage, 0.5, times, dt);
    second.steps = steps_of_work(second, stage, 0.5, times, dt);
    training.stages = {first, second};
  }
  training.validate_every = std::max(validation_pause, training.steps() / validations);
  return changed;
}

ModelPlan without_memory(ModelPlan plan) {
  plan.network->shape = of_kind(plan.network->shape, LayerKind::mlp);
  plan.kind = to_string(LayerKind::mlp);
  return plan;
}

ModelPlan on_first_half(ModelPlan plan, std::size_t times, std::size_t validation, double dt) {
  TrainingPlan& training = plan.network->training;
  StagePlan& stage = training.stages.front();
  const std::size_t past = past_times(training, dt), whole = stage.window > 0 ? stage.window : times;
  if (!is_open(training, "window") || stage.horizon > 0 || whole < past + 2 * shortest_half) return plan;
  const std::size_t half = past + (whole - past) / 2;
  if (stage.window > 0)
    stage.window = half;
  else
    stage.horizon = dt * static_cast<double>(half - 1);
  if (training.validation_horizon == 0)
    training.validation_horizon = dt * static_cast<double>(validation - 1);
  return plan;
}

double training_work(const ModelPlan& plan, std::size_t times, double dt) {
  const NetworkShape& shape = plan.network->shape;
  double work = 0;
  for (const StagePlan& stage : plan.network->training.stages) work += stage_work(stage, times, dt);
  return work * static_cast<double>(ParameterLayout(shape).size()) * (has_states(shape.kind) ? scan_cost : 1);
}

bool starts_anywhere(const TrainingPlan& plan) { return plan.history > 0 || plan.stages.front().window > 0; }

bool has_longer_rollouts(const TrainingPlan& plan, std::size_t times, double dt) {
  return !starts_anywhere(plan) && learned_times(plan, times, dt) > 2 * longest_rollout;
}

TrainingPlan for_their_length(TrainingPlan plan, std::size_t trajectories, std::size_t times, double dt) {
  StagePlan& first = plan.stages.front();
  if (is_open(plan, "window") && times > longest_whole + 1) {
    first.window = past_times(plan, dt) + window_of_long;
    if (plan.validation_horizon == 0) plan.validation_horizon = dt * static_cast<double>(rollout_of_long);
    if (is_open(plan, "validation_trajectories"))
      plan.validation_trajectories = std::min(plan.validation_trajectories, rollouts_of_long);
  }
  const std::size_t length = first.window > 0 ? first.window : times;
  while (is_open(plan, "batch") && first.batch > 1 && first.batch * length > most_in_batch + first.batch)
    first.batch /= 2;
  if (is_open(plan, "steps"))
    first.steps = usual_steps(trajectories * std::max<std::size_t>(1, times / length), length);
  return plan;
}

std::size_t usual_steps(std::size_t sequences, std::size_t times) {
  const double length = std::sqrt(static_cast<double>(std::max(times, short_sequence)) / short_sequence);
  const double steps = static_cast<double>(steps_a_sequence * sequences) / length;
  return std::clamp(static_cast<std::size_t>(steps), fewest_steps, most_steps);
}

bool is_open(const TrainingPlan& plan, std::string_view setting) {
  return !plan.given.contains(std::string(setting));
}

std::string_view to_string(Rollouts rollouts) {
  switch (rollouts) {
    case Rollouts::none:
      return "";
    case Rollouts::then:
      return "then rollouts";
    case Rollouts::then_whole:
      return "then whole rollouts";
    case Rollouts::alone:
      return "rollouts alone";
  }
  throw Error("no such use of rollouts");
}

std::string Search::warning() const {
  if (!judged || beats_none()) return {};
  return fmt::format(
      "no closure is better than the best of {} trials: in free rollouts over the validation data its error "
      "is "
      "{}, without a closure {}",
      trials.size(), percent_or_failed(trials[chosen].error), percent_or_failed(none));
}

nlohmann::json to_json(const Trial& trial) {
  return {{"kind", to_string(trial.shape.kind)},
          {"noise", trial.settings.noise},
          {"max_lr", trial.settings.max_lr},
          {"d_model", trial.shape.d_model},
          {"d_state", trial.shape.d_state},
          {"rollouts", trial.settings.rollouts != Rollouts::none},
          {"rollouts_said", to_string(trial.settings.rollouts)},
          {"window", trial.settings.window},
          {"frame", to_string(trial.settings.frame)},
          {"steps", trial.steps},
          {"in_full", trial.in_full},
          {"error", std::isfinite(trial.error) ? nlohmann::json(trial.error) : nullptr}};
}

nlohmann::json to_json(const Search& search) {
  nlohmann::json trials = nlohmann::json::array();
  for (const Trial& trial : search.trials) trials.push_back(to_json(trial));
  const auto if_judged = [&](const auto& value) {
    return search.judged ? nlohmann::json(value) : nlohmann::json(nullptr);
  };
  nlohmann::json memoryless;
  if (search.memoryless)
    memoryless = {{"error", std::isfinite(search.memoryless->error) ? nlohmann::json(search.memoryless->error)
                                                                    : nullptr},
                  {"with_memory", search.memoryless->with_memory}};
  return {{"memoryless", memoryless},
          {"judged_by", search.judged ? "free rollouts over the validation data" : "validation loss"},
          {"equations", search.equations},
          {"coupling", search.coupling},
          {"horizon", if_judged(search.horizon)},
          {"beyond", if_judged(search.beyond)},
          {"on_first_half", search.on_first_half},
          {"error_without_closure", if_judged(search.none)},
          {"trials", trials},
          {"chosen", search.chosen},
          {"better_than_none", if_judged(search.beats_none())},
          {"cut_by_budget", search.cut_by_budget},
          {"warning", search.warning()}};
}

}  // namespace mac
