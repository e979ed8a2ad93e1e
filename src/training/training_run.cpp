#include "training/training_run.hpp"

#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <mac/error.hpp>
#include <nlohmann/json.hpp>

#include "io/number_text.hpp"

namespace mac {

namespace {

constexpr double explosion = 1e4;  // times the first loss of the stage
constexpr std::size_t history_rows = 1000;

}  // namespace

template <class T>
TrainingRun<T>::TrainingRun(const Experiment& experiment, const ModelPlan& model, const DataFile& data,
                            const Normalisation& normalisation, const std::string& path, bool resume)
    : experiment_(experiment), model_(model), data_(data), normalisation_(normalisation), files_(path) {
  const NetworkShape& s = shape();
  identity_ = {
      {"model", model_.name},
      {"training", to_text(plan())},
      {"shape", fmt::format("{} {} {} {} {} {}", to_string(s.kind), s.d_in, s.d_out, s.d_model, s.n_blocks,
                            s.d_state)},
      {"data", data_.experiment().config.text()},
      // Recorded data may change under the same experiment.
      {"normalisation", fmt::format("{} {} {} {}", normalisation_.input_mean, normalisation_.input_scale,
                                    normalisation_.output_mean, normalisation_.output_scale)}};
  start(resume);
  if (resume && state.step == 0) result = finished_model();
}

template <class T>
void TrainingRun<T>::start(bool resume) {
  if (resume) {
    if (auto saved = load_checkpoint<T>(files_, identity_)) {
      state = std::move(*saved);
      return;
    }
  } else {
    for (const std::string& path : {files_.checkpoint, files_.previous_checkpoint})
      if (std::filesystem::exists(path))
        throw UsageError("{}: an unfinished training; go on with --resume, or remove it to start anew", path);
  }
  const std::vector<double> initial = initial_parameters(shape(), plan().seed);
  state.parameters.assign(initial.begin(), initial.end());
  if (plan().averaging > 0) state.average = state.parameters;
}

/// The model, if this very training has written it already.
template <class T>
std::optional<TrainingResult> TrainingRun<T>::finished_model() const {
  if (!std::filesystem::exists(files_.model)) return std::nullopt;
  const Model found = load_model(files_.model);
  const std::map<std::string, std::string> expected = provenance();
  for (const char* key : {"name", "training", "data_experiment"}) {
    const auto entry = found.provenance.find(key);
    if (entry == found.provenance.end() || entry->second != expected.at(key)) return std::nullopt;
  }
  if (found.shape != shape() || found.normalisation != normalisation_) return std::nullopt;
  TrainingResult finished{found, plan().steps(), NAN, 0};
  if (const auto step = found.provenance.find("best_step"); step != found.provenance.end())
    finished.best_step = std::stoul(step->second);
  if (const auto error = found.provenance.find(validation_key()); error != found.provenance.end())
    finished.best_validation = number_in(error->second);
  return finished;
}

template <class T>
void TrainingRun<T>::count_step(const StepReport& report, double lr, bool first_of_stage) {
  if (first_of_stage) state.first_loss = report.loss;
  ++state.step;
  if (std::isfinite(report.loss) && std::isfinite(report.gradient_norm) &&
      report.loss <= explosion * state.first_loss)
    return;
  const bool saved = std::filesystem::exists(files_.checkpoint);
  failure = fmt::format(
      "training {} went wrong at step {} (loss {:g}, gradient norm {:g}, learning rate {:g}); {}. Try a "
      "lower max_lr or a clip",
      name(), state.step, report.loss, report.gradient_norm, lr,
      saved ? fmt::format("the last good checkpoint is {}", files_.checkpoint)
            : "there is no checkpoint yet");
}

template <class T>
void TrainingRun<T>::note(const StepReport& report, double lr, double validation, bool always) {
  const std::size_t every = std::max<std::size_t>(1, plan().steps() / history_rows);
  if (std::isnan(validation) && !always && state.step % every != 0) return;
  state.history.push_back(
      {static_cast<double>(state.step), report.loss, lr, report.gradient_norm, validation});
}

template <class T>
void TrainingRun<T>::judge(double validation) {
  if (!state.best.empty() && validation > state.best_validation) return;
  state.best = current();
  state.best_step = state.step;
  state.best_validation = validation;
}

template <class T>
void TrainingRun<T>::save() const {
  save_checkpoint(files_, state, identity_);
  write_history(files_.history, state.history);
}

template <class T>
void TrainingRun<T>::finish(double seconds_per_step) {
  const bool last = plan().select == Selection::last;
  result = {trained_model(), last ? plan().steps() : state.best_step, last ? NAN : state.best_validation,
            seconds_per_step};
  write_history(files_.history, state.history);
  save_model(result->model, files_.model);
  remove_checkpoints(files_);
}

template <class T>
Model TrainingRun<T>::trained_model() const {
  const std::vector<T>& weights = plan().select == Selection::last ? current() : state.best;
  Model model;
  model.shape = shape();
  model.parameters.assign(weights.begin(), weights.end());
  model.dtype = sizeof(T) == sizeof(double) ? Dtype::f64 : Dtype::f32;
  model.normalisation = normalisation_;
  model.system = experiment_.system->name();
  model.input_names = experiment_.system->resolved_names();
  model.output_names = experiment_.system->closure_names();
  const auto targets = experiment_.system->closure_targets();
  model.closure_targets.assign(targets.begin(), targets.end());
  model.closure_step = experiment_.data.closure_step();
  model.held = plan().held;
  model.recipe = plan().recipe;
  model.provenance = provenance();
  if (plan().select != Selection::last) {
    model.provenance["best_step"] = fmt::format("{}", state.best_step);
    model.provenance[validation_key()] = fmt::format("{}", state.best_validation);
  }
  return model;
}

template <class T>
std::string TrainingRun<T>::validation_key() const {
  return plan().select == Selection::loss ? "validation_loss" : "validation_rollout_error";
}

/// What it takes to train this model again.
template <class T>
std::map<std::string, std::string> TrainingRun<T>::provenance() const {
  return {{"name", model_.name},
          {"experiment", experiment_.config.text()},
          {"data_experiment", data_.experiment().config.text()},
          {"system_parameters", nlohmann::json(equations(data_.experiment().config.table("system"))).dump()},
          {"training", to_text(plan())},
          {"seed", fmt::format("{}", plan().seed)},
          {"steps", fmt::format("{}", plan().steps())}};
}

template class TrainingRun<float>;
template class TrainingRun<double>;

}  // namespace mac
