#include "training/auto_recipe.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <nlohmann/json.hpp>

#include "base/standard_streams.hpp"
#include "io/atomic_file.hpp"
#include "parallel/ranks.hpp"
#include "training/fitted_equations.hpp"
#include "training/normalise.hpp"
#include "training/trainer.hpp"
#include "training/trial.hpp"
#include "training/validation.hpp"

namespace mac {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t steps_share = 8;  // a trial takes the whole training's steps over this ...
constexpr std::size_t least_steps = 300, most_steps = 600;  // ... but not fewer or more than these
constexpr std::size_t longest_window =
    500;  // times of a training sequence, where trajectories are over twice as long
constexpr std::size_t window_share = 4;     // the trial of a shorter window, where trajectories have ...
constexpr std::size_t worth_windows = 200;  // ... so many times
constexpr double close_second = 2;  // times the best trial's error, up to which the second is trained in full
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
    identity_ = fmt::format("{}{} {} {} {}", to_text(training()), plan.network->shape.d_model,
                            plan.network->shape.n_blocks, plan.network->shape.d_state,
                            to_string(plan.network->shape.kind));
    choose_equations();
    limit_lengths();
  }

  TrainingResult run() {
    if (const auto finished = finished_model()) return *finished;
    on_root([&] {
      if (!options_.resume && fs::exists(folder()))
        throw UsageError("{}: an unfinished training; go on with --resume, or remove it to start anew",
                         folder());
      make_folder(folder());
    });
    if (search_.judged) {
      search_.none = error_without_closure();
      try_noise();
      try_others();
      try_without_memory();
    }
    train_finalists();
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

  /// Of long trajectories short sequences are learned from and judged by: a rollout of any length says little more
  /// than one over a few hundred steps, and takes its time.
  void limit_lengths() {
    if (!is_open(training(), "window") || data_.split("train").times() <= 2 * longest_window) return;
    const double dt = experiment_.data.closure_step();
    const auto past = static_cast<std::size_t>(std::lround(training().history / dt));
    training().stages.front().window = past + longest_window;
    if (training().validation_horizon == 0)
      training().validation_horizon = dt * static_cast<double>(longest_window);
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
        found.normalisation != normalisation())
      return std::nullopt;
    TrainingResult result{std::move(found), 0, NAN, 0};
    result.search = result.model.provenance.at("search");
    const auto search = nlohmann::json::parse(result.search);
    result.warning = search.at("warning").get<std::string>();
    return result;
  }

  Normalisation normalisation() const {
    const DataSplit train = data_.split("train");
    return fit_normalisation(train, *experiment_.system, training().normalisation, training().held.target,
                             train.times());
  }

  double error_without_closure() const {
    const Normalisation scale = normalisation();
    const double dt = experiment_.data.closure_step();
    const auto steps = [&](double time) { return static_cast<std::size_t>(std::lround(time / dt)); };
    const DataSplit validation = data_.split("validation");
    const std::size_t all = validation.times() - 1, horizon = training().validation_horizon > 0
                                                                  ? steps(training().validation_horizon)
                                                                  : all;
    const RolloutValidation rollouts(validation, {std::min(all, horizon), training().validation_trajectories,
                                                  steps(training().history), training().validation_beyond});
    return rollouts.error_without_closure({*experiment_.system, scale, training().held, dt});
  }

  std::size_t trial_steps() const {
    return std::min(stage().steps, std::clamp(stage().steps / steps_share, least_steps, most_steps));
  }

  TrialSettings planned() const { return {stage().noise, stage().max_lr, 0, false, 0}; }

  /// Times of a sequence in the trial of shorter ones; 0: they are short enough. After a history a sequence may start
  /// anywhere; without one it starts from hidden variables that its memory has not seen.
  std::size_t shorter_window() const {
    const std::size_t times = stage().window > 0 ? stage().window : data_.split("train").times();
    const auto past =
        static_cast<std::size_t>(std::lround(training().history / experiment_.data.closure_step()));
    return is_open(training(), "window") && times >= past + worth_windows
               ? past + (times - past) / window_share
               : 0;
  }

  /// Climbs from the planned noise to the better side, as far as it gets better.
  void try_noise() {
    TrialSettings settings = planned();
    attempt(settings, trial_steps());
    if (!is_open(training(), "noise")) return;
    const double middle = settings.noise;
    for (const double noise : {middle / noise_factor, middle * noise_factor}) {
      settings.noise = noise;
      attempt(settings, trial_steps());
    }
    settings.noise =
        search_.trials[best()].settings.noise > middle ? middle * noise_factor * noise_factor : 0;
    attempt(settings, trial_steps());
  }

  /// A stage of rollouts, other learning rates and sizes with the noise that did best.
  void try_others() {
    const TrialSettings from = search_.trials[best()].settings;
    const auto vary = [&](const auto& change) {
      TrialSettings settings = from;
      change(settings);
      attempt(settings, trial_steps());
    };
    if (is_open(training(), "loss")) vary([](TrialSettings& s) { s.rollout = true; });
    if (is_open(training(), "max_lr"))
      for (const double factor : {1 / lr_factor, lr_factor})
        vary([&](TrialSettings& s) { s.max_lr *= factor; });
    if (is_open(training(), "size"))
      for (const int size : {-1, 1}) vary([&](TrialSettings& s) { s.size = size; });
    if (const std::size_t window = shorter_window(); window > 0)
      vary([&](TrialSettings& s) { s.window = window; });
  }

  /// What memory is worth: the best short trial again with a network that has none. It is never chosen.
  void try_without_memory() {
    const Trial& with = search_.trials[best()];
    if (with.shape.kind == LayerKind::mlp || !std::isfinite(with.error)) return;
    if (options_.device == Device::cuda) return;  // which has no such network
    if (options_.budget > 0 && over_budget(with.steps)) return;
    const ModelPlan plan = without_memory(settled(with.settings, with.steps));
    search_.memoryless = {
        trained_error(plan, (fs::path(folder()) / "memoryless.safetensors").string(), with.steps),
        with.error};
  }

  /// In full: the best two trials, with a stage of rollouts if that helped where it was tried. A large
  /// network takes the time of both.
  void train_finalists() {
    if (!search_.judged) {
      attempt(planned(), stage().steps, true);
      return;
    }
    if (stage().steps > trial_steps()) {
      std::vector<Trial> ranked = search_.trials;
      std::ranges::stable_sort(ranked, {}, &Trial::error);
      const bool rollouts = rollouts_help();
      for (std::size_t i = 0; i < std::min<std::size_t>(2, ranked.size()); ++i) {
        TrialSettings finalist = ranked[i].settings;
        finalist.rollout = rollouts;
        const bool close = ranked[i].error <= close_second * ranked[0].error;
        if (i == 0 || (close && ranked[0].settings.size <= 0)) attempt(finalist, stage().steps, i == 0);
      }
    }
    search_.chosen = best();
  }

  /// Whether the trial with rollouts is better than the one without them.
  bool rollouts_help() const {
    for (const Trial& with : search_.trials)
      for (const Trial& without : search_.trials) {
        TrialSettings same = without.settings;
        same.rollout = true;
        if (with.settings.rollout && !without.settings.rollout && same == with.settings)
          return with.error < without.error;
      }
    return false;
  }

  /// Trains with the settings, unless they were tried before or the budget has no room for them.
  void attempt(const TrialSettings& settings, std::size_t steps, bool always = false) {
    for (const Trial& trial : search_.trials)
      if (trial.settings == settings && trial.steps == steps) return;
    if (!always && !search_.trials.empty() && options_.budget > 0 && over_budget(steps)) {
      search_.cut_by_budget = true;
      return;
    }
    const ModelPlan plan = settled(settings, steps);
    Trial trial{settings, plan.network->shape, steps};
    trial.error = trained_error(plan, trial_file(search_.trials.size()), steps, always && !search_.judged);
    search_.trials.push_back(trial);
    if (!options_.quiet && search_.judged)
      say("trial {}: {} steps, {}: {:.3g} % (no closure {:.3g} %)\n", search_.trials.size(), steps,
          to_string(trial), 100 * trial.error, 100 * search_.none);
  }

  ModelPlan settled(const TrialSettings& settings, std::size_t steps) const {
    return with_settings(plan_, settings, steps, data_.split("train").times() - 1,
                         experiment_.data.closure_step());
  }

  /// Of free rollouts after a training into `file`; infinity where the loss exploded, unless that `must` succeed.
  double trained_error(const ModelPlan& plan, const std::string& file, std::size_t steps, bool must = false) {
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
    Bytes seconds(sizeof(double));  // rank 0's, so that all ranks judge the budget alike
    const double mine = seconds_since(begin);
    std::memcpy(seconds.data(), &mine, sizeof mine);
    ranks().broadcast(seconds);
    double roots = 0;
    std::memcpy(&roots, seconds.data(), sizeof roots);
    seconds_ += roots;
    steps_ += steps;
    return error;
  }

  /// Whether these steps leave too little time for a whole training after them.
  bool over_budget(std::size_t steps) const {
    const double per_step = seconds_ / static_cast<double>(steps_);
    const std::size_t after = steps < stage().steps ? stage().steps : 0;
    return seconds_ + per_step * static_cast<double>(steps + after) > options_.budget;
  }

  std::size_t best() const {
    return static_cast<std::size_t>(std::ranges::min_element(search_.trials, {}, &Trial::error) -
                                    search_.trials.begin());
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
    result.seconds_per_step = seconds_ / static_cast<double>(std::max<std::size_t>(1, steps_));
    result.search = to_json(search_).dump();
    if (search_.judged) {
      result.table = to_table(search_);
      result.warning = search_.warning();
    }
    result.model.provenance["search"] = result.search;
    result.model.provenance["auto_plan"] = identity_;
    const TrainingFiles files(path_), trial(trial_file(search_.chosen));
    wait_for_all_ranks();  // until they have read the trial
    on_root([&] {
      save_model(result.model, path_);
      fs::copy_file(trial.history, files.history, fs::copy_options::overwrite_existing);
      if (options_.json_lines)
        fs::copy_file(trial.history_lines, files.history_lines, fs::copy_options::overwrite_existing);
      fs::remove_all(folder());
    });
    return result;
  }

  Experiment experiment_;  // with equations that can be rolled out
  ModelPlan plan_;
  const DataFile& data_;
  std::string path_, identity_;
  TrainOptions options_;
  Search search_;
  double seconds_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace

TrainingResult train_auto(const Experiment& experiment, const ModelPlan& plan, const DataFile& data,
                          const std::string& path, const TrainOptions& options) {
  return AutoTraining(experiment, plan, data, path, options).run();
}

}  // namespace mac
