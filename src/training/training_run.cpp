#include "training/training_run.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mac/error.hpp>
#include <nlohmann/json.hpp>
#include <span>

#include "base/number_text.hpp"
#include "io/xxh64.hpp"
#include "parallel/ranks.hpp"
#include "training/training_range.hpp"

namespace mac {

namespace {

constexpr double explosion = 1e4;  // times the first loss of the stage
constexpr std::size_t history_rows = 1000;

}  // namespace

template <class T>
TrainingRun<T>::TrainingRun(const Experiment& experiment, const ModelPlan& model, const DataFile& data,
                            const InputMap& inputs, const Normalisation& normalisation,
                            const std::vector<double>& start, const std::string& path,
                            const TrainOptions& options)
    : experiment_(experiment),
      model_(model),
      data_(data),
      inputs_(inputs),
      normalisation_(normalisation),
      files_(path),
      options_(options) {
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
  if (const NoiseInputs& noise = model_.network->noise; noise.channels > 0)
    identity_["noise"] =
        fmt::format("{} {}{}", noise.channels, noise.time, shape().deviations ? " deviations" : "");
  if (const std::string read = to_text(model_.network->inputs); !read.empty()) identity_["inputs"] = read;
  if (!start.empty())
    identity_["init"] = fmt::format("{:016x}", content_hash(std::as_bytes(std::span(start)), 0));
  begin(start);
  if (options_.resume && state.step == 0) result = finished_model();
}

template <class T>
void TrainingRun<T>::begin(const std::vector<double>& start) {
  if (options_.resume) {
    if (auto saved = load_checkpoint<T>(files_, identity_)) {
      state = std::move(*saved);
      const std::size_t count = parameter_count(shape());
      const auto fits = [&](const std::vector<T>& weights) {
        return weights.empty() || weights.size() == count;
      };
      if (state.parameters.size() != count || !fits(state.average) || !fits(state.best))
        throw Error("{}: has other weights than the {} of the network", files_.checkpoint, count);
      return;
    }
  } else {
    for (const std::string& path : {files_.checkpoint, files_.previous_checkpoint})
      if (std::filesystem::exists(path))
        throw UsageError("{}: an unfinished training; go on with --resume, or remove it to start anew", path);
  }
  const std::vector<double> initial = start.empty() ? initial_parameters(shape(), plan().seed) : start;
  state.parameters.assign(initial.begin(), initial.end());
  if (plan().averaging > 0) state.average = state.parameters;
}

/// The model, if this very training has written it already.
template <class T>
std::optional<TrainingResult> TrainingRun<T>::finished_model() const {
  if (!std::filesystem::exists(files_.model)) return std::nullopt;
  const Model found = load_model(files_.model);
  const std::map<std::string, std::string> expected = provenance();
  for (const char* key : {"name", "training", "data_experiment", "init"}) {
    const auto entry = found.provenance.find(key);
    const auto wanted = expected.find(key);  // no "init": from random weights
    if ((entry == found.provenance.end()) != (wanted == expected.end())) return std::nullopt;
    if (wanted != expected.end() && entry->second != wanted->second) return std::nullopt;
  }
  if (found.shape != shape() || found.noise != model_.network->noise ||
      found.inputs != model_.network->inputs || found.normalisation != normalisation_)
    return std::nullopt;
  TrainingResult finished{found, plan().steps(), NAN, 0, plan().steps()};
  if (const auto steps = found.provenance.find("steps"); steps != found.provenance.end())
    finished.steps = std::stoul(steps->second);
  if (const auto step = found.provenance.find("best_step"); step != found.provenance.end())
    finished.best_step = std::stoul(step->second);
  if (const auto error = found.provenance.find(validation_key()); error != found.provenance.end())
    finished.best_validation = number_in(error->second);
  return finished;
}

template <class T>
void TrainingRun<T>::count_step(const StepReport& report, bool first_of_stage) {
  if (first_of_stage) state.first_loss = report.loss;
  ++state.step;
  // The logarithm of a density may be of either sign, and zero means nothing: one is its unit.
  const bool logarithm = std::ranges::any_of(
      plan().stages, [](const StagePlan& stage) { return stage.loss == LossKind::likelihood; });
  const double size = logarithm ? std::max(1.0, std::abs(state.first_loss)) : state.first_loss;
  if (std::isfinite(report.loss) && std::isfinite(report.gradient_norm) && report.loss <= explosion * size)
    return;
  const bool saved = std::filesystem::exists(files_.checkpoint);
  failure = fmt::format(
      "training {} went wrong at step {} (loss {:g}, gradient norm {:g}, learning rate {:g}); {}. Try a "
      "lower max_lr or a clip",
      name(), state.step, report.loss, report.gradient_norm, report.lr,
      saved ? fmt::format("the last good checkpoint is {}", files_.checkpoint)
            : "there is no checkpoint yet");
}

template <class T>
void TrainingRun<T>::note(const StepReport& report, double validation, bool always) {
  const std::size_t every = std::max<std::size_t>(1, plan().steps() / history_rows);
  if (std::isnan(validation) && !always && state.step % every != 0) return;
  state.history.push_back(
      {static_cast<double>(state.step), report.loss, report.lr, report.gradient_norm, validation});
}

template <class T>
void TrainingRun<T>::judge(double validation) {
  if (!state.best.empty() && validation > state.best_validation) return;
  state.best = current();
  state.best_step = state.step;
  state.best_validation = validation;
}

template <class T>
std::size_t TrainingRun<T>::validations_since_best(std::size_t stage_start) const {
  const auto after = static_cast<double>(std::max(state.best_step, stage_start));
  return static_cast<std::size_t>(std::ranges::count_if(
      state.history, [&](const HistoryRow& row) { return row.step > after && !std::isnan(row.validation); }));
}

template <class T>
std::size_t TrainingRun<T>::leave_stage(std::size_t stage_end) {
  const std::size_t left = stage_end - state.step;
  state.skipped += left;
  state.step = stage_end;
  return left;
}

template <class T>
void TrainingRun<T>::save() const {
  on_root([&] {
    save_checkpoint(files_, state, identity_);
    write_histories();
  });
}

template <class T>
void TrainingRun<T>::write_histories() const {
  write_history(files_.history, state.history);
  if (options_.json_lines) write_history_lines(files_.history_lines, state.history, plan());
}

template <class T>
void TrainingRun<T>::finish(double seconds_per_step) {
  const bool last = plan().select == Selection::last;
  result = {trained_model(), last ? plan().steps() : state.best_step, last ? NAN : state.best_validation,
            seconds_per_step, plan().steps() - state.skipped};
  on_root([&] {
    write_histories();
    save_model(result->model, files_.model);
    remove_checkpoints(files_);
  });
}

/// A pass over all data, by one rank.
template <class T>
TrainingRange TrainingRun<T>::range_of_root() const {
  const NumberLists lists = numbers_of_root([&]() -> NumberLists {
    const TrainingRange range = fit_training_range(data_.split("train"), inputs_, plan().held.target);
    return {range.input_low,   range.input_high,    range.output_low,
            range.output_high, range.input_average, range.input_covariance};
  });
  return {lists[0], lists[1], lists[2], lists[3], lists[4], lists[5]};
}

template <class T>
Model TrainingRun<T>::trained_model() const {
  const std::vector<T>& weights = plan().select == Selection::last ? current() : state.best;
  Model model;
  model.shape = shape();
  model.noise = model_.network->noise;
  model.parameters.assign(weights.begin(), weights.end());
  model.dtype = sizeof(T) == sizeof(double) ? Dtype::f64 : Dtype::f32;
  model.normalisation = normalisation_;
  model.training_range = range_of_root();
  model.system = experiment_.system->name();
  model.inputs = model_.network->inputs;
  model.input_names = inputs_.feature_names();
  model.output_names = inputs_.output_names();
  model.closure_targets = inputs_.targets_among_features();
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
  std::map<std::string, std::string> facts{
      {"name", model_.name},
      {"experiment", experiment_.config.text()},
      {"data_experiment", data_.experiment().config.text()},
      {"system_parameters", nlohmann::json(equations(data_.experiment().config.table("system"))).dump()},
      {"training", to_text(plan())},
      {"seed", fmt::format("{}", plan().seed)},
      {"steps", fmt::format("{}", plan().steps() - state.skipped)}};
  if (const auto range = data_.parameter_range()) {
    nlohmann::json ranges = nlohmann::json::object();
    for (std::size_t k = 0; k < range->low.size(); ++k)
      ranges[data_.experiment().data.parameters[k]] = {range->low[k], range->high[k]};
    facts["parameter_range"] = ranges.dump();
  }
  if (const auto init = identity_.find("init"); init != identity_.end()) facts["init"] = init->second;
  return facts;
}

template class TrainingRun<float>;
template class TrainingRun<double>;

}  // namespace mac
