// The JSON layout of metrics (errors as fractions):
//   models.NAME.SPLIT.intervals."[a,b]".resolved.VAR.{mean,std}, closure likewise;
//   models.NAME.SPLIT.cumulative_l2.{mean,std}, correlation.{mean,centred_mean}, blow_ups, series.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mac/evaluation.hpp>
#include <mac/version.hpp>
#include <nlohmann/json.hpp>

namespace mac {

namespace {

using nlohmann::json;

constexpr std::size_t most_points = 401;  // of a series; enough for a figure at any size

json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }
json to_json(const MeanStd& value) { return {{"mean", number(value.mean)}, {"std", number(value.std)}}; }

json by_variable(const std::vector<std::string>& names, const std::vector<MeanStd>& values) {
  json result = json::object();
  for (std::size_t v = 0; v < names.size(); ++v) result[names[v]] = to_json(values[v]);
  return result;
}

json thinned(const Series& series) {
  const std::size_t every = std::max<std::size_t>(1, (series.size() + most_points - 2) / (most_points - 1));
  json result = json::array();
  for (std::size_t t = 0; t < series.size(); t += every) result.push_back(number(series[t]));
  return result;
}

json to_json(const SplitMetrics& metrics, const System& system) {
  json intervals = json::object();
  for (const IntervalMetrics& interval : metrics.intervals)
    intervals[to_string(interval.interval)] = {
        {"resolved", by_variable(system.resolved_names(), interval.resolved)},
        {"closure", by_variable(system.closure_names(), interval.closure)}};
  json blow_ups = json::array();
  for (const BlowUp& blow_up : metrics.blow_ups)
    blow_ups.push_back({{"file", blow_up.file}, {"trajectory", blow_up.trajectory}, {"time", blow_up.time}});
  json series = {{"time", thinned(metrics.time)},
                 {"running_l2", thinned(metrics.running_l2)},
                 {"running_correlation", thinned(metrics.running_correlation)},
                 {"running_centred_correlation", thinned(metrics.running_centred_correlation)}};
  if (system.fourier_modes() > 0) {
    series["physical_l2"] = thinned(metrics.physical_l2);
    series["energy"] = thinned(metrics.energy);
    series["true_energy"] = thinned(metrics.true_energy);
    for (const auto& [label, values] : metrics.labelled_physical_l2)
      series["physical_l2_of"][label] = thinned(values);
  }
  return {{"trajectories", metrics.trajectories},
          {"intervals", std::move(intervals)},
          {"cumulative_l2", to_json(metrics.cumulative_l2)},
          {"correlation",
           {{"mean", number(metrics.correlation)}, {"centred_mean", number(metrics.centred_correlation)}}},
          {"blow_ups", std::move(blow_ups)},
          {"series", std::move(series)}};
}

}  // namespace

json to_json(const Evaluation& evaluation) {
  json models = json::object();
  for (const ModelMetrics& model : evaluation.models) {
    json entry = {{"files", model.files}};
    for (const auto& [name, split] : model.splits)
      entry[name] = to_json(split, *evaluation.experiment.system);
    models[model.model] = std::move(entry);
  }
  return {{"system", std::string(evaluation.experiment.system->name())},
          {"program", fmt::format("mac {} ({})", version(), commit())},
          {"closure_step", evaluation.experiment.data.closure_step()},
          {"models", std::move(models)}};
}

}  // namespace mac
