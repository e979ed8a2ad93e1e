#include "training/auto_recipe.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <mac/step_stability.hpp>
#include <nlohmann/json.hpp>

#include "base/standard_streams.hpp"
#include "io/atomic_file.hpp"
#include "training/budget_clock.hpp"
#include "training/fitted_equations.hpp"
#include "training/normalise.hpp"
#include "training/search_account.hpp"
#include "training/trainer.hpp"
#include "training/trial_choice.hpp"
#include "training/validation.hpp"

namespace mac {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t steps_share = 8;  // a trial takes the whole training's steps over this ...
constexpr std::size_t least_steps = 300, most_steps = 600;  // ... but not fewer or more than these
constexpr std::size_t heat_share = 4,
                      longest_heat = 2000;  // a heat takes the whole training's steps over this
constexpr std::size_t alone_factor =
    4;  // rollouts alone learn from few steps, each of them dear: work of its trial ...
constexpr double alone_decides = 3;      // ... and what they must be better by, for nothing else to be tried
constexpr std::size_t window_share = 4;  // the trial of a shorter window, where trajectories have ...
constexpr std::size_t worth_windows = 200;  // ... so many times
constexpr double as_good = 1.15;            // times another error: no difference that a short trial can tell
constexpr double better_floor =
    3;  // factor by which another coupling of the exact closure must be better ...
constexpr double low_floor = 1e-3;  // ... and the error of the usual one, below which it limits nobody
constexpr LayerKind kinds_to_try[] = {LayerKind::mamba, LayerKind::gru};
constexpr double noise_factor = 3, lr_factor = 2.5;
constexpr double useful_fit = 0.3;  // largest error of fitted equations that still tell closures apart

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class AutoTraining {
 public:
  AutoTraining(const Experiment& experiment, const ModelPlan& plan, const DataFile& data,
               const std::string& path, const TrainOptions& options)
      : experiment_(experiment), plan_(plan), data_(data), path_(path), options_(options) {
    if (!data.has("validation"))
      throw UsageError(
          "{}: has no validation split to judge trials by; say recipe = \"fast\" and select = \"last\"",
          data.path());
    identity_ = fmt::format("{}{} {} {} {} given: {}{}", to_text(training()), plan.network->shape.d_model,
                            plan.network->shape.n_blocks, plan.network->shape.d_state,
                            to_string(plan.network->shape.kind), fmt::join(training().given, " "),
                            to_text(plan.network->inputs));
    choose_equations();
    training() = for_their_length(training(), data_.split("train").trajectories(), times(), dt());
    choose_coupling();
  }

  TrainingResult run() {
    if (const auto finished = finished_model()) return *finished;
    if (!options_.resume && fs::exists(folder()))
      throw UsageError(
          "{}: an unfinished training; go on with --resume (Python: resume=True), or remove it to start anew",
          folder());
    scales();  // what is wrong with the data is said before there is a folder to go on from
    make_folder(folder());
    clock_.emplace((fs::path(folder()) / "seconds.txt").string(), options_.budget);
    if (search_.judged) {
      search_.on_first_half = work(settled(planned(), short_trial())) <
                              work(with_settings(plan_, planned(), trial_steps(), times(), dt()));
      search_.none = error_without_closure();
      const auto intervals = static_cast<double>(judged_intervals());
      search_.horizon = dt() * intervals;
      search_.beyond = dt() * std::round(training().validation_beyond * intervals);
      try_kinds();
      try_frame();
      if (is_open(training(), "loss") && starts_anywhere(training())) try_rollouts_alone();
      if (!rollouts_alone_win(search_.trials, alone_decides)) {
        try_noise();
        try_others();
      }
      try_without_memory();
    }
    train_finalists();
    train_longer();
    return write_model();
  }

 private:
  const TrainingPlan& training() const { return plan_.network->training; }
  TrainingPlan& training() { return plan_.network->training; }
  const StagePlan& stage() const { return training().stages.front(); }
  std::string folder() const { return fs::path(path_).replace_extension(".trials").string(); }

  /// The equations that the validation rollouts run with: the system's own, or some fitted to the data.
  void choose_equations() {
    training().select = Selection::rollout;
    search_.equations = "with the given reduced equations";
    if (experiment_.system->has_equations()) return;
    const auto fitted = fit_equations(experiment_.system, data_.split("train"), data_.split("validation"),
                                      experiment_.data.closure_step());
    if (fitted && fitted->error < useful_fit) {
      experiment_.system = fitted->system;
      search_.equations = fmt::format(
          "with reduced equations fitted to dy/dt - closure (a polynomial of degree {}, {:.2g} % off)",
          fitted->degree, 100 * fitted->error);
      return;
    }
    search_.judged = false;
    training().select = Selection::loss;
    search_.equations = "none: there are no reduced equations, and none could be fitted to the data";
  }

  /// What is learned: the closure at a time, or its mean over the step that follows. The closure of the validation data
  /// itself, coupled in both ways, says what a network could reach.
  void choose_coupling() {
    if (!search_.judged) return;
    const auto learned = [](Target target) {
      return target == Target::mean ? "learned: the closure's mean over a step"
                                    : "learned: the closure's value at a time";
    };
    const HeldClosure usual = training().held, mean{usual.hold, Target::mean};
    if (!is_open(training(), "target") || data_.split("validation").masked()) {
      search_.coupling = learned(usual.target);
      return;
    }
    const double floor = exact_error(usual), other = exact_error(mean);
    const bool better = floor > low_floor && better_floor * other < floor;
    if (better) training().held = mean;
    search_.coupling = fmt::format(
        "{}; rollouts with the exact closure: {} off with its means over a step, {} with its values",
        learned(training().held.target), percent_or_failed(other), percent_or_failed(floor));
  }

  /// The model, if this very search has written it already.
  std::optional<TrainingResult> finished_model() const {
    if (!options_.resume || !fs::exists(path_) || fs::exists(folder())) return std::nullopt;
    Model found = load_model(path_);
    const auto says = [&](const char* key, const std::string& value) {
      const auto entry = found.provenance.find(key);
      return entry != found.provenance.end() && entry->second == value;
    };
    if (!says("auto_plan", identity_) || !says("data_experiment", data_.experiment().config.text()) ||
        found.normalisation != scales().network)
      return std::nullopt;
    TrainingResult result{std::move(found), 0, NAN, 0};
    result.search = result.model.provenance.at("search");
    const auto search = nlohmann::json::parse(result.search);
    if (const auto account = account_of(search)) result.table = to_text(*account);
    result.warning = search.at("warning").get<std::string>();
    return result;
  }

  InputMap inputs() const {
    return {plan_.network->inputs, *experiment_.system, data_.split("train").input_names()};
  }
  FittedScales scales() const {
    const DataSplit train = data_.split("train");
    return fit_scales(train, *experiment_.system, inputs(), training().normalisation, training().held.target,
                      train.times());
  }

  /// Rollouts over the validation data, as those of the trials are but for what comes beyond them.
  RolloutValidation::Plan rollout_plan(double beyond) const {
    const auto steps = [&](double time) { return static_cast<std::size_t>(std::lround(time / dt())); };
    const std::size_t all = data_.split("validation").times() - 1;
    const std::size_t horizon =
        training().validation_horizon > 0 ? steps(training().validation_horizon) : all;
    return {std::min(all, horizon), training().validation_trajectories, steps(training().history), beyond};
  }

  std::size_t judged_intervals() const {
    const RolloutValidation::Plan plan = rollout_plan(0);
    return std::min(plan.intervals, data_.split("validation").times() - 1 - plan.history);
  }

  double error_without_closure() const {
    const FittedScales scale = scales();
    const RolloutValidation rollouts(data_.split("validation"), rollout_plan(training().validation_beyond));
    return rollouts.error_without_closure({*experiment_.system, scale.network, training().held,
                                           reduced_step(), 1, 0, inputs(), scale.resolved});
  }

  /// Of rollouts with the closure of the data.
  double exact_error(HeldClosure held) const {
    const FittedScales scale = scales();
    const DataSplit validation = data_.split("validation");
    return RolloutValidation(validation, rollout_plan(0))
        .error_of_exact_closure(validation, {*experiment_.system, scale.network, held, reduced_step(), 1, 0,
                                             inputs(), scale.resolved});
  }

  std::size_t trial_steps() const {
    return std::min(stage().steps, std::clamp(stage().steps / steps_share, least_steps, most_steps));
  }

  /// How much of a training: its steps, and whether on all of the data or, in a short trial, on the first half.
  struct Extent {
    std::size_t steps;
    bool in_full;
    bool operator==(const Extent&) const = default;
  };
  Extent short_trial() const { return {trial_steps(), false}; }
  Extent heat() const { return {std::min(stage().steps / heat_share, longest_heat), true}; }

  TrialSettings planned() const {
    return {plan_.network->shape.kind,  stage().noise, stage().max_lr, 0, Rollouts::none, 0,
            plan_.network->inputs.frame};
  }

  /// Times of a sequence in the trial of shorter ones; 0: they are short enough. After a history a sequence may start
  /// anywhere; without one it starts from hidden variables that its memory has not seen.
  std::size_t shorter_window() const {
    const std::size_t times = stage().window > 0 ? stage().window : data_.split("train").times();
    const auto past = static_cast<std::size_t>(std::lround(training().history / dt()));
    return is_open(training(), "window") && times >= past + worth_windows
               ? past + (times - past) / window_share
               : 0;
  }

  void try_kinds() {
    TrialSettings settings = planned();
    attempt(settings, short_trial());
    if (!is_open(training(), "kind")) return;
    for (const LayerKind kind : kinds_to_try) {
      settings.kind = kind;
      attempt(settings, short_trial());
    }
  }

  /// Fourier modes as they are, or turned into the frame of the first state.
  void try_frame() {
    TrialSettings settings = front_runner(search_.trials);
    settings.frame = Frame::initial;
    if (is_open(training(), "frame") && has_frame(plan_.network->inputs, *experiment_.system))
      attempt(settings, short_trial());
  }

  /// From the planned noise to less and more, and further up where more helps by more than chance; else to none.
  void try_noise() {
    if (!is_open(training(), "noise")) return;
    TrialSettings settings = front_runner(search_.trials);
    noise_trials_ = settings;
    const double middle = settings.noise;
    for (const double noise : {middle / noise_factor, middle * noise_factor}) {
      settings.noise = noise;
      attempt(settings, short_trial());
    }
    const auto error = [&](double noise) {
      settings.noise = noise;
      const auto found = std::ranges::find(search_.trials, settings, &Trial::settings);
      return found == search_.trials.end() ? std::numeric_limits<double>::infinity() : found->error;
    };
    const bool more = as_good * error(middle * noise_factor) < error(middle);
    settings.noise = more ? middle * noise_factor * noise_factor : 0;
    attempt(settings, short_trial());
  }

  /// Other kinds, learning rates, sizes, shorter sequences, a stage of rollouts: each from what did best so far.
  void try_others() {
    const auto vary = [&](const auto& values, const auto& change) {
      const TrialSettings from = front_runner(search_.trials);
      for (const auto value : values) {
        TrialSettings settings = from;
        change(settings, value);
        attempt(settings, short_trial());
      }
    };
    if (is_open(training(), "kind")) vary(kinds_to_try, [](auto& s, LayerKind kind) { s.kind = kind; });
    if (is_open(training(), "max_lr"))
      vary(std::array{1 / lr_factor, lr_factor}, [](auto& s, double factor) { s.max_lr *= factor; });
    if (is_open(training(), "size")) vary(std::array{-1, 1}, [](auto& s, int size) { s.size = size; });
    if (const std::size_t window = shorter_window(); window > 0)
      vary(std::array{window}, [](auto& s, std::size_t times) { s.window = times; });
    if (is_open(training(), "loss")) try_rollouts();
  }

  void try_rollouts() {
    TrialSettings settings = front_runner(search_.trials);
    settings.rollouts = Rollouts::then;
    attempt(settings, short_trial());
    settings.rollouts = Rollouts::then_whole;
    if (has_longer_rollouts(training(), times(), dt())) attempt(settings, short_trial());
  }

  void try_rollouts_alone() {
    TrialSettings settings = front_runner(search_.trials);
    settings.noise = 0;
    settings.rollouts = Rollouts::alone;
    attempt(settings, {alone_factor * trial_steps(), false});
  }

  /// What memory is worth: the best short trial again with a network that has none. It is never chosen.
  void try_without_memory() {
    const Trial& with = search_.trials[best_trial(search_.trials)];
    if (with.shape.kind == LayerKind::mlp || !std::isfinite(with.error)) return;
    if (options_.device == Device::cuda) return;  // which has no such network
    const ModelPlan plan = without_memory(settled(with.settings, {with.steps, with.in_full}));
    if (!clock_->has_room_for(work(plan) + work_in_full())) return;
    search_.memoryless = {trained_error(plan, (fs::path(folder()) / "memoryless.safetensors").string()),
                          with.error};
  }

  /// In full: the finalist. Where that does worse than a shorter training, the longer one has learned its data by heart:
  /// then the best of other settings as well.
  void train_finalists() {
    if (!search_.judged) {
      attempt(planned(), {stage().steps, true}, true);
      return;
    }
    if (stage().steps > trial_steps()) {
      TrialSettings best_of_heat;
      if (!rollouts_alone_win(search_.trials, alone_decides)) best_of_heat = winner_of_heat();
      const TrialSettings finalist = choose_finalist(search_.trials, best_of_heat);
      if (const std::size_t steps = affordable_steps(finalist); steps > trial_steps())
        attempt(finalist, {steps, true}, true);
      if (search_.trials[best_trial(search_.trials)].steps < search_.trials.back().steps)
        if (const auto other = best_besides(search_.trials, finalist)) attempt(*other, {stage().steps, true});
    }
    search_.chosen = best_trial(search_.trials);
  }

  /// Of what is worth it, each for a quarter of the steps on all of the data.
  TrialSettings winner_of_heat() {
    const std::vector<TrialSettings> entrants = heat_entrants(search_.trials, noise_trials_, stage().max_lr);
    if (entrants.size() == 1 || heat().steps <= trial_steps()) return entrants[0];
    const std::size_t before = search_.trials.size();
    for (const TrialSettings& entrant : entrants) attempt(entrant, heat());
    const auto heats = std::span(search_.trials).subspan(before);
    return heats.empty() ? entrants[0] : heats[best_trial(heats)].settings;  // empty: no room in the budget
  }

  /// What a budget leaves: the best again with twice the steps, as long as that makes it better.
  void train_longer() {
    if (options_.budget <= 0 || !search_.judged || !search_.trials[search_.chosen].in_full) return;
    for (std::size_t last = search_.chosen;; last = search_.chosen) {
      const Trial so_far = search_.trials[last];
      const Extent longer{2 * so_far.steps, true};
      if (!clock_->has_room_for(work(settled(so_far.settings, longer)))) return;
      attempt(so_far.settings, longer);
      search_.chosen = best_trial(search_.trials);
      if (search_.chosen == last) return;
    }
  }

  /// Of a whole training, as many as the budget has room for.
  std::size_t affordable_steps(const TrialSettings& settings) {
    const double share = clock_->share_with_room(work(settled(settings, {stage().steps, true})));
    if (share < 1) search_.cut_by_budget = true;
    return static_cast<std::size_t>(share * static_cast<double>(stage().steps));
  }

  /// Trains with the settings, unless they were tried before or the budget has no room for them.
  void attempt(const TrialSettings& settings, Extent extent, bool always = false) {
    for (const Trial& trial : search_.trials)
      if (trial.settings == settings && Extent{trial.steps, trial.in_full} == extent) return;
    const ModelPlan plan = settled(settings, extent);
    if (!always && !search_.trials.empty() &&
        !(extent.steps < stage().steps ? clock_->has_room_for_trial(work(plan), work_in_full())
                                       : clock_->has_room_for(work(plan)))) {
      search_.cut_by_budget = true;
      return;
    }
    Trial trial{settings, plan.network->shape, extent.steps, extent.in_full};
    trial.error = trained_error(plan, trial_file(search_.trials.size()), always && !search_.judged);
    search_.trials.push_back(trial);
    if (!options_.quiet && search_.judged)
      say("trial {}: {} steps, {}: {:.3g} % (no closure {:.3g} %)\n", search_.trials.size(), extent.steps,
          settings_of(to_json(trial)), 100 * trial.error, 100 * search_.none);
  }

  ReducedStep reduced_step() const { return choose_step(*experiment_.system, experiment_.rollout, data_); }
  double dt() const { return experiment_.data.closure_step(); }
  std::size_t times() const { return data_.split("train").times(); }
  double work(const ModelPlan& plan) const { return training_work(plan, times(), dt()); }
  /// Of a whole training as planned.
  double work_in_full() const { return work(plan_); }

  ModelPlan settled(const TrialSettings& settings, Extent extent) const {
    return with_settings(
        extent.in_full ? plan_ : on_first_half(plan_, times(), data_.split("validation").times(), dt()),
        settings, extent.steps, times(), dt());
  }

  /// Of free rollouts after a training into `file`; infinity where the loss exploded, unless that `must` succeed.
  double trained_error(const ModelPlan& plan, const std::string& file, bool must = false) {
    const auto begin = Clock::now();
    TrainOptions options = options_;
    options.resume = true;
    double error = std::numeric_limits<double>::infinity();
    try {
      const std::uint64_t seed = training().seed;
      error =
          train_as_planned(experiment_, plan, {&seed, 1}, data_, {&file, 1}, options).at(0).best_validation;
    } catch (const Interrupted&) {
      throw;
    } catch (const UsageError&) {
      throw;
    } catch (const Error&) {
      if (must) throw;
    }
    clock_->count(work(plan), seconds_since(begin));
    steps_ += plan.network->training.steps();
    return error;
  }

  std::string trial_file(std::size_t i) const {
    return (fs::path(folder()) / fmt::format("trial{}.safetensors", i + 1)).string();
  }

  TrainingResult write_model() {
    const Trial& chosen = search_.trials.at(search_.chosen);
    if (!std::isfinite(chosen.error) && !fs::exists(trial_file(search_.chosen)))
      throw Error("none of the {} trials of recipe = \"auto\" could be trained; try a lower max_lr",
                  search_.trials.size());
    TrainingResult result{load_model(trial_file(search_.chosen)), chosen.steps, chosen.error, 0};
    result.steps = chosen.steps;
    result.seconds_per_step = clock_->seconds() / static_cast<double>(std::max<std::size_t>(1, steps_));
    nlohmann::json search = to_json(search_);
    if (const auto account = account_of(search)) {
      result.table = to_text(*account);
      search["reason"] = account->reason;
    }
    result.search = search.dump();
    result.warning = search_.warning();
    result.model.provenance["search"] = result.search;
    result.model.provenance["auto_plan"] = identity_;
    const TrainingFiles files(path_), trial(trial_file(search_.chosen));
    save_model(result.model, path_);
    fs::copy_file(trial.history, files.history, fs::copy_options::overwrite_existing);
    if (options_.json_lines)
      fs::copy_file(trial.history_lines, files.history_lines, fs::copy_options::overwrite_existing);
    fs::remove_all(folder());
    return result;
  }

  Experiment experiment_;  // with equations that can be rolled out
  ModelPlan plan_;
  const DataFile& data_;
  std::string path_, identity_;
  TrainOptions options_;
  Search search_;
  TrialSettings noise_trials_;  // what the trials of noise had in common
  std::optional<BudgetClock> clock_;
  std::size_t steps_ = 0;
};

}  // namespace

TrainingResult train_auto(const Experiment& experiment, const ModelPlan& plan, const DataFile& data,
                          const std::string& path, const TrainOptions& options) {
  return AutoTraining(experiment, plan, data, path, options).run();
}

}  // namespace mac
