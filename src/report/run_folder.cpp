#include "report/run_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <mac/training.hpp>
#include <mac/verdict.hpp>
#include <set>

#include "io/hdf5.hpp"
#include "io/json_text.hpp"
#include "report/style.hpp"

namespace mac::report {

namespace {

namespace fs = std::filesystem;

/// Files with the extension, by name; none if there is no such folder.
std::vector<std::string> files_in(const fs::path& folder, const std::string& extension) {
  std::vector<std::string> files;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_regular_file() && entry.path().extension() == extension)
        files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

/// The place of a model's name: in the order of the experiment's models, then the others, the floors last.
std::ptrdiff_t rank(const std::string& model, const Experiment& experiment) {
  const auto found = std::ranges::find(experiment.models, model, &ModelPlan::name);
  return (found - experiment.models.begin()) + (is_floor(model) ? 1 : 0);
}

std::string stem(const std::string& path) { return fs::path(path).stem().string(); }

/// The experiment's name for a model it took from a file; else the one in the file itself; else "mac" from
/// mac-seed0.safetensors.
std::string model_name(const Model& model, const std::string& path, const Experiment& experiment) {
  for (const ModelPlan& plan : experiment.models)
    if (plan.file && model_file_name(plan) == fs::path(path).filename()) return plan.name;
  for (const char* key : {"name", "model"})
    if (const auto own = model.provenance.find(key); own != model.provenance.end()) return own->second;
  const std::string file = stem(path);
  return file.substr(0, file.rfind("-seed"));
}

/// The metrics of a run, unless there are none, or of a version that did not yet say which trajectory is the
/// median.
std::optional<Evaluation> stored_metrics(const fs::path& run) {
  if (!fs::exists(run / "metrics.json")) return std::nullopt;
  Evaluation stored = read_metrics((run / "metrics.json").string());
  for (const ModelMetrics& model : stored.models)
    for (const auto& [name, split] : model.splits)
      if (!split.median_trajectory && split.blow_ups.size() < split.trajectories) return std::nullopt;
  return stored;
}

/// The files that metrics.json was made from, or all of them: a folder may hold seeds and models of studies
/// before, which mac run keeps for another time.
std::vector<std::string> rollouts_of(const fs::path& run) {
  std::vector<std::string> paths = files_in(run / "rollouts", ".h5");
  if (!fs::exists(run / "metrics.json")) return paths;
  std::set<std::string> measured;
  for (const ModelMetrics& model : read_metrics((run / "metrics.json").string()).models)
    for (const std::string& file : model.files) measured.insert(stem(file));
  if (!measured.empty())
    std::erase_if(paths, [&](const std::string& path) { return !measured.contains(stem(path)); });
  return paths;
}

/// Without the times of models and rollouts that are not of this study: {"train models/NAME": seconds, ...}
void leave_out_others(nlohmann::json& timing, const std::set<std::string>& study) {
  if (!timing.contains("stages") || !timing["stages"].is_object()) return;
  auto kept = nlohmann::json::object();
  for (const auto& [stage, seconds] : timing["stages"].items()) {
    const fs::path output = stage.substr(stage.find(' ') + 1);
    if (!output.has_parent_path() || study.contains(output.stem().string())) kept[stage] = seconds;
  }
  timing["stages"] = std::move(kept);
}

bool is_linear_kernel(const std::string& path) {
  const h5::File file = h5::File::open(path);
  return file.has_attribute("/", "baseline") && file.string_attribute("/", "baseline") == "memory_kernel" &&
         file.number_attribute("/", "degree") == 1;
}

}  // namespace

Source read_rollouts(const std::vector<std::string>& paths, const std::string& data) {
  if (paths.empty()) throw UsageError("there is no rollout to report");
  Evaluation evaluation = evaluate_files(paths, {data});
  Experiment experiment = evaluation.experiment;
  std::vector<RolloutReader> rollouts(paths.begin(), paths.end());
  return {std::move(experiment),
          std::move(evaluation),
          std::move(rollouts),
          RolloutData(data),
          std::nullopt,
          {},
          {},
          std::nullopt,
          {},
          {}};
}

Source read_run(const std::string& folder) {
  const fs::path run(folder);
  if (!fs::is_directory(run)) throw UsageError("{}: is not a folder that mac run wrote", folder);
  const std::vector<std::string> paths = rollouts_of(run);
  if (paths.empty()) throw UsageError("{}: has no rollouts/*.h5 to report", folder);
  std::set<std::string> study;
  for (const std::string& path : paths) study.insert(stem(path));
  std::vector<RolloutReader> rollouts(paths.begin(), paths.end());
  const Experiment& rolled_out = rollouts.front().header().experiment;
  Experiment experiment =
      fs::exists(run / "experiment.toml")
          ? Experiment::read((run / "experiment.toml").string(), describe(*rolled_out.system))
          : rolled_out;
  const auto rank_of = [&](const std::string& model) { return rank(model, experiment); };
  std::ranges::stable_sort(rollouts, {}, [&](const RolloutReader& r) { return rank_of(r.model()); });
  auto evaluation = stored_metrics(run);
  if (!evaluation) {
    std::vector<std::string> ordered;
    for (const RolloutReader& rollout : rollouts) ordered.push_back(rollout.path());
    evaluation =
        evaluate_files(ordered, {{}, &experiment});  // its [evaluation] may be newer than the rollouts
  }
  std::ranges::stable_sort(evaluation->models, {}, [&](const ModelMetrics& m) { return rank_of(m.model); });
  Source source{std::move(experiment),
                std::move(*evaluation),
                std::move(rollouts),
                RolloutData(),
                std::nullopt,
                {},
                {},
                std::nullopt,
                {},
                {}};
  const auto by_name = [&](const auto& member) {
    return [&, member](const auto& entry) { return rank(entry.*member, source.experiment); };
  };
  if (fs::exists(run / "data.h5")) source.data.emplace(DataFile::open((run / "data.h5").string()));

  for (const std::string& path : files_in(run / "models", ".safetensors")) {
    if (!study.contains(stem(path))) continue;  // of another study, or a training that is not finished
    Model model = load_model(path);
    const std::string name = model_name(model, path, source.experiment);
    source.models.push_back({name, fs::path(path).filename().string(), std::move(model)});
    if (const std::string history = TrainingFiles(path).history; fs::exists(history))
      source.histories.push_back(read_history(history, name));
  }
  std::ranges::stable_sort(source.models, {}, by_name(&TrainedModel::name));
  std::ranges::stable_sort(source.histories, {}, by_name(&TrainingHistory::model));
  for (const std::string& path : files_in(run / "models", ".h5"))
    if (!source.kernel && study.contains(stem(path)) && is_linear_kernel(path))
      source.kernel = load_memory_kernel(path);

  source.timing_file = (run / "timing.json").string();
  if (fs::exists(source.timing_file)) {
    source.timing = nlohmann::json::parse(read_json_text(source.timing_file), nullptr, false);
    if (!source.timing.is_object()) throw Error("{}: is not a JSON object", source.timing_file);
    leave_out_others(source.timing, study);
  }
  return source;
}

}  // namespace mac::report
