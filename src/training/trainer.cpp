#include <omp.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <mac/cuda.hpp>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <mac/training.hpp>
#include <type_traits>

#include "training/adamw.hpp"
#include "training/checkpoint.hpp"
#include "training/normalise.hpp"
#include "training/one_cycle.hpp"
#include "training/validation.hpp"

namespace mac {

namespace {

constexpr double explosion = 1e4;  // times the first loss of the stage
constexpr std::size_t history_rows = 1000;

/// Saved times of a split that a horizon leaves.
std::size_t usable_times(const DataSplit& split, double horizon, double dt) {
  if (horizon <= 0) return split.times();
  return std::min(split.times(), static_cast<std::size_t>(std::lround(horizon / dt)) + 1);
}

double longest_horizon(const TrainingPlan& plan) {
  double longest = 0;
  for (const StagePlan& stage : plan.stages) {
    if (stage.horizon <= 0) return 0;  // all of it
    longest = std::max(longest, stage.horizon);
  }
  return longest;
}

template <class T>
std::unique_ptr<SequenceEngine<T>> make_engine(const NetworkShape& shape, Device device, int threads) {
  if (device == Device::cpu) return make_cpu_engine<T>(shape, threads);
  if constexpr (std::is_same_v<T, float>)
    return make_cuda_engine(shape);
  else
    throw UsageError("the CUDA engine trains in float32: leave out float64 = true, or train on the CPU");
}

template <class T>
class Trainer {
 public:
  Trainer(const Experiment& experiment, const ModelPlan& model, const DataFile& data, const std::string& path,
          const TrainOptions& options)
      : experiment_(experiment),
        model_(model),
        plan_(model.network->training),
        shape_(model.network->shape),
        data_(data),
        files_(path),
        options_(options),
        threads_(options.threads > 0 ? options.threads : omp_get_num_procs()),
        train_(data.split("train")),
        normalisation_(fit_normalisation(train_, *experiment.system, plan_.normalisation, plan_.held.target,
                                         usable_times(train_, longest_horizon(plan_), step()))),
        context_{*experiment.system, normalisation_, plan_.held, step(), threads_},
        engine_(make_engine<T>(shape_, options.device, threads_)) {
    if (plan_.select == Selection::last) return;
    if (!data.has("validation"))
      throw UsageError("{}: has no validation split to select the weights by; say select = \"last\"",
                       data.path());
    validation_.emplace(data.split("validation"));
    if (plan_.select == Selection::rollout) {
      const double horizon = plan_.validation_horizon > 0 ? plan_.validation_horizon : longest_horizon(plan_);
      rollouts_.emplace(*validation_, usable_times(*validation_, horizon, step()) - 1,
                        plan_.validation_trajectories);
    }
  }

  TrainingResult run() {
    start();
    if (auto finished = finished_model()) return *finished;
    const std::size_t total = plan_.steps();
    const auto begin = std::chrono::steady_clock::now();
    const std::size_t first_step = state_.step;
    {
      Progress progress(fmt::format("training {} (seed {})", model_.name, plan_.seed), total - first_step,
                        options_.quiet);
      std::size_t stage_start = 0;
      for (const StagePlan& stage : plan_.stages) {
        if (state_.step < stage_start + stage.steps) run_stage(stage, stage_start, progress);
        stage_start += stage.steps;
      }
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    TrainingResult result{
        trained_model(), plan_.select == Selection::last ? total : state_.best_step,
        plan_.select == Selection::last ? NAN : state_.best_validation,
        elapsed.count() / static_cast<double>(std::max<std::size_t>(1, total - first_step))};
    write_history(files_.history, state_.history);
    save_model(result.model, files_.model);
    remove_checkpoints(files_);
    return result;
  }

 private:
  double step() const { return experiment_.data.closure_step(); }

  void start() {
    identity_ = {{"model", model_.name},
                 {"training", to_text(plan_)},
                 {"shape", fmt::format("{} {} {} {} {} {}", to_string(shape_.kind), shape_.d_in, shape_.d_out,
                                       shape_.d_model, shape_.n_blocks, shape_.d_state)},
                 {"data", data_.experiment().config.text()}};
    if (options_.resume) {
      if (auto saved = load_checkpoint<T>(files_, identity_)) {
        state_ = std::move(*saved);
        return;
      }
    } else {
      for (const std::string& path : {files_.checkpoint, files_.previous_checkpoint})
        if (std::filesystem::exists(path))
          throw UsageError("{}: an unfinished training; go on with --resume, or remove it to start anew",
                           path);
    }
    const std::vector<double> initial = initial_parameters(shape_, plan_.seed);
    state_.parameters.assign(initial.begin(), initial.end());
    if (plan_.averaging > 0) state_.average = state_.parameters;
  }

  /// With --resume: the model, if this very training has written it already.
  std::optional<TrainingResult> finished_model() const {
    if (!options_.resume || state_.step > 0 || !std::filesystem::exists(files_.model)) return std::nullopt;
    const Model found = load_model(files_.model);
    const std::map<std::string, std::string> expected = provenance();
    for (const char* key : {"name", "training", "data_experiment"}) {
      const auto entry = found.provenance.find(key);
      if (entry == found.provenance.end() || entry->second != expected.at(key)) return std::nullopt;
    }
    if (found.shape != shape_) return std::nullopt;
    TrainingResult result{found, plan_.steps(), NAN, 0};
    if (const auto step = found.provenance.find("best_step"); step != found.provenance.end())
      result.best_step = std::stoul(step->second);
    if (const auto error = found.provenance.find(validation_key()); error != found.provenance.end())
      result.best_validation = std::stod(error->second);
    return result;
  }

  void run_stage(const StagePlan& stage, std::size_t stage_start, Progress& progress) {
    const OneCycle schedule{stage.steps,      stage.max_lr,           stage.warmup_fraction,
                            stage.div_factor, stage.final_div_factor, stage.cycle_momentum};
    const std::size_t times = usable_times(train_, stage.horizon, step());
    const TrainingData data(train_, plan_.held.target, times, plan_.memory * 1e9);
    const auto loss = make_loss<T>(stage, context_, *engine_);
    std::optional<LossValidation> validation_loss;
    if (plan_.select == Selection::loss)
      validation_loss.emplace(*validation_, plan_.held.target, stage,
                              usable_times(*validation_, stage.horizon, step()),
                              plan_.validation_trajectories);
    BatchStream batches(data, *experiment_.system, stage, plan_.seed, stage_start, threads_);
    AdamW<T> optimiser(state_.parameters.size(), stage.weight_decay);
    if (state_.step > stage_start) {
      optimiser.first_moment = state_.first_moment;
      optimiser.second_moment = state_.second_moment;
      optimiser.steps_taken = state_.step - stage_start;
    } else if (plan_.select == Selection::loss) {
      state_.best_validation = std::numeric_limits<double>::infinity();  // losses of two stages don't compare
    }

    std::vector<T> gradient(state_.parameters.size());
    const auto begin = std::chrono::steady_clock::now();
    const std::size_t first_step = state_.step;
    while (state_.step < stage_start + stage.steps) {
      const std::size_t local = state_.step - stage_start;
      const auto [lr, beta1] = schedule.at(local);
      std::ranges::fill(gradient, T(0));
      const double value = loss->evaluate(state_.parameters.data(), batches.at(local), gradient.data());
      if (local == 0) state_.first_loss = value;
      const double norm = clip_gradient<T>(gradient, stage.clip > 0 ? stage.clip : INFINITY);
      refuse_explosion(value, norm, lr);
      optimiser.step(state_.parameters, gradient, lr, beta1);
      ++state_.step;
      update_average();

      const bool last = state_.step == stage_start + stage.steps;
      HistoryRow row{static_cast<double>(state_.step), value, lr, norm};
      if (plan_.select != Selection::last && (last || state_.step % plan_.validate_every == 0))
        row.validation = validate(loss.get(), validation_loss);
      const std::size_t every = std::max<std::size_t>(1, plan_.steps() / history_rows);
      if (!std::isnan(row.validation) || last || state_.step % every == 0) state_.history.push_back(row);

      const bool stop = interrupted();
      if (stop || state_.step % plan_.checkpoint_every == 0) {
        state_.first_moment = optimiser.first_moment;
        state_.second_moment = optimiser.second_moment;
        save_checkpoint(files_, state_, identity_);
        write_history(files_.history, state_.history);
      }
      if (stop) throw Interrupted();
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      progress.note(fmt::format(
          "loss {:.3g}, lr {:.2e}, gradient {:.2g}, {:.1f} it/s{}", value, lr, norm,
          static_cast<double>(state_.step - first_step) / elapsed.count(),
          state_.best.empty()
              ? std::string()
              : fmt::format(", best {} {:.4g}", plan_.select == Selection::loss ? "loss" : "rollout error",
                            state_.best_validation)));
      progress.advance();
    }
  }

  void refuse_explosion(double loss, double norm, double lr) const {
    if (std::isfinite(loss) && std::isfinite(norm) && loss <= explosion * state_.first_loss) return;
    const bool saved = std::filesystem::exists(files_.checkpoint);
    throw Error(
        "training {} went wrong at step {} (loss {:g}, gradient norm {:g}, learning rate {:g}); {}. Try a "
        "lower max_lr or a clip",
        model_.name, state_.step + 1, loss, norm, lr,
        saved ? fmt::format("the last good checkpoint is {}", files_.checkpoint)
              : "there is no checkpoint yet");
  }

  void update_average() {
    // A young average forgets faster, so that the initial weights don't linger in it.
    const double n = static_cast<double>(state_.step);
    const T fresh = static_cast<T>(1 - std::min(plan_.averaging, n / (n + 10)));
    for (std::size_t i = 0; i < state_.average.size(); ++i)
      state_.average[i] += fresh * (state_.parameters[i] - state_.average[i]);
  }

  const std::vector<T>& current() const {
    return state_.average.empty() ? state_.parameters : state_.average;
  }

  double validate(Loss<T>* loss, const std::optional<LossValidation>& validation_loss) {
    const double error = rollouts_ ? rollouts_->template error<T>(shape_, current(), context_)
                                   : validation_loss->template error<T>(current().data(), *loss);
    if (state_.best.empty() || error <= state_.best_validation) {
      state_.best = current();
      state_.best_step = state_.step;
      state_.best_validation = error;
    }
    return error;
  }

  Model trained_model() const {
    const std::vector<T>& weights = plan_.select == Selection::last ? current() : state_.best;
    Model model;
    model.shape = shape_;
    model.parameters.assign(weights.begin(), weights.end());
    model.dtype = sizeof(T) == sizeof(double) ? Dtype::f64 : Dtype::f32;
    model.normalisation = normalisation_;
    model.system = experiment_.system->name();
    model.input_names = experiment_.system->resolved_names();
    model.output_names = experiment_.system->closure_names();
    model.closure_step = step();
    model.held = plan_.held;
    model.recipe = plan_.recipe;
    model.provenance = provenance();
    if (plan_.select != Selection::last) {
      model.provenance["best_step"] = fmt::format("{}", state_.best_step);
      model.provenance[validation_key()] = fmt::format("{}", state_.best_validation);
    }
    return model;
  }

  std::string validation_key() const {
    return plan_.select == Selection::loss ? "validation_loss" : "validation_rollout_error";
  }

  /// What it takes to train this model again.
  std::map<std::string, std::string> provenance() const {
    return {{"name", model_.name},
            {"experiment", experiment_.config.text()},
            {"data_experiment", data_.experiment().config.text()},
            {"training", to_text(plan_)},
            {"seed", fmt::format("{}", plan_.seed)},
            {"steps", fmt::format("{}", plan_.steps())}};
  }

  const Experiment& experiment_;
  const ModelPlan& model_;
  const TrainingPlan& plan_;
  NetworkShape shape_;
  const DataFile& data_;
  TrainingFiles files_;
  TrainOptions options_;
  int threads_;
  DataSplit train_;
  Normalisation normalisation_;
  LossContext context_;
  std::unique_ptr<SequenceEngine<T>> engine_;
  std::optional<DataSplit> validation_;
  std::optional<RolloutValidation> rollouts_;
  TrainingIdentity identity_;
  TrainingState<T> state_;
};

}  // namespace

TrainingResult train(const Experiment& experiment, const ModelPlan& plan, const DataFile& data,
                     const std::string& path, const TrainOptions& options) {
  if (!plan.network) throw UsageError("the model {} of kind {} is not a network", plan.name, plan.kind);
  const DataPlan& made = data.experiment().data;
  if (data.experiment().system->name() != experiment.system->name() ||
      made.closure_step() != experiment.data.closure_step())
    throw UsageError("{}: holds {} data with a closure step of {}, the experiment describes {} with {}",
                     data.path(), data.experiment().system->name(), made.closure_step(),
                     experiment.system->name(), experiment.data.closure_step());
  if (plan.network->training.float64) return Trainer<double>(experiment, plan, data, path, options).run();
  return Trainer<float>(experiment, plan, data, path, options).run();
}

}  // namespace mac
