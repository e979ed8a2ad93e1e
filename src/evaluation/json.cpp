// The JSON layout of metrics (errors as fractions):
//   models.NAME.files; models.NAME.SPLIT.trajectories;
//   models.NAME.SPLIT.intervals."[a,b]".resolved.VAR.{mean,std,seeds}, closure likewise;
//   models.NAME.SPLIT.cumulative_l2.{mean,std,seeds}, correlation.{mean,seeds,centred_mean,centred_seeds},
//   blow_ups, median_trajectory, outside_training_range.{share,true_share,variables.VAR}, series;
//   models.NAME.SPLIT.by_parameter.NAME.{training: [a, b], groups: [{value,outside,trajectories,blow_ups,mean,std}]};
//   models.NAME.SPLIT.statistics.{from,trajectories,quantities.NAME.{...},neighbours,
//   lyapunov.{mean,error,runs},true_lyapunov,autocorrelation,power};
//   models.NAME.SPLIT.verification.{members,trajectories,lost_members,correlation,time,crps,climatology,persistence,
//   error,spread,lost,ranks,reliability.{forecasts,observed}};
//   models.NAME.validation_check.{horizon,validation_error,test_error};
//   verdict.{measure, models.NAME.{sentence, warnings, comparisons}}: derived from the rest, not read back;
//   experiment: the text of the experiment file.
// Numbers have six significant digits, those of series four; null stands for NaN.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mac/evaluation.hpp>
#include <mac/verdict.hpp>
#include <mac/version.hpp>
#include <nlohmann/json.hpp>

#include "base/number_text.hpp"

namespace mac {

namespace {

using Json = nlohmann::ordered_json;  // tables keep the order of models, intervals and variables

constexpr std::size_t most_intervals = 200;  // of a series: enough for a figure at any size

Json number(double value, int digits = 6) {
  if (!std::isfinite(value)) return nullptr;
  return number_in(fmt::format("{:.{}g}", value, digits));
}

Json numbers(const std::vector<double>& values) {
  Json result = Json::array();
  for (const double value : values) result.push_back(number(value));
  return result;
}

Json to_json(const MeanStd& value) {
  Json result = {{"mean", number(value.mean)}, {"std", number(value.std)}};
  if (!value.seeds.empty()) result["seeds"] = numbers(value.seeds);
  return result;
}

Json correlation_json(const MeanStd& plain, const MeanStd& centred) {
  Json result = {{"mean", number(plain.mean)}, {"centred_mean", number(centred.mean)}};
  if (!plain.seeds.empty()) result["seeds"] = numbers(plain.seeds);
  if (!centred.seeds.empty()) result["centred_seeds"] = numbers(centred.seeds);
  return result;
}

Json by_variable(const std::vector<std::string>& names, const std::vector<MeanStd>& values) {
  Json result = Json::object();
  for (std::size_t v = 0; v < names.size(); ++v) result[names[v]] = to_json(values[v]);
  return result;
}

/// Every so many values that at most most_intervals + 2 are left, the last one among them.
Json thinned(const Series& series, int digits = 4) {
  Json result = Json::array();
  if (series.empty()) return result;
  const std::size_t every = (series.size() + most_intervals - 2) / most_intervals;
  for (std::size_t t = 0; t + 1 < series.size(); t += std::max<std::size_t>(1, every))
    result.push_back(number(series[t], digits));
  result.push_back(number(series.back(), digits));
  return result;
}

Json series_json(const SplitMetrics& metrics, const System& system) {
  Json series = {{"time", thinned(metrics.time, 6)}, {"running_l2", thinned(metrics.running_l2)}};
  if (system.fourier_modes() > 0) {
    series["physical_l2"] = thinned(metrics.physical_l2);
    series["energy"] = thinned(metrics.energy);
    series["true_energy"] = thinned(metrics.true_energy);
    for (const auto& [label, values] : metrics.labelled_physical_l2)
      series["physical_l2_of"][label] = thinned(values);
  } else {
    // A correlation of .9982 and one of .9975 are told apart by the fourth decimal.
    series["running_correlation"] = thinned(metrics.running_correlation, 6);
    series["running_centred_correlation"] = thinned(metrics.running_centred_correlation, 6);
  }
  return series;
}

Json to_json(const Distance& distance) {
  return {{"value", number(distance.value)}, {"floor", number(distance.floor)}};
}

Json to_json(const Spectrum& spectrum, const char* at) {
  const auto all = [](const std::vector<double>& values) {
    Json result = Json::array();
    for (const double value : values) result.push_back(number(value, 4));
    return result;
  };
  return {
      {at, all(spectrum.at)}, {"values", all(spectrum.values)}, {"true_values", all(spectrum.true_values)}};
}

Json to_json(const Statistics& statistics) {
  Json quantities = Json::object();
  for (const QuantityStatistics& q : statistics.quantities) {
    Json density = Json::array(), true_density = Json::array();
    for (std::size_t i = 0; i < q.density.size(); ++i)
      density.push_back(number(q.density[i], 4)), true_density.push_back(number(q.true_density[i], 4));
    quantities[q.name] = {{"mean", number(q.mean)},
                          {"std", number(q.std)},
                          {"true_mean", number(q.true_mean)},
                          {"true_std", number(q.true_std)},
                          {"hellinger", to_json(q.hellinger)},
                          {"wasserstein", to_json(q.wasserstein)},
                          {"kullback_leibler", to_json(q.kullback_leibler)},
                          {"above", number(q.above)},
                          {"below", number(q.below)},
                          {"far_above", number(q.far_above)},
                          {"far_below", number(q.far_below)},
                          {"low", number(q.low)},
                          {"high", number(q.high)},
                          {"density", std::move(density)},
                          {"true_density", std::move(true_density)}};
  }
  Json result = {{"from", number(statistics.from)},
                 {"trajectories", statistics.trajectories},
                 {"quantities", std::move(quantities)}};
  if (statistics.neighbours) result["neighbours"] = to_json(*statistics.neighbours);
  const auto put = [&](const char* key, const std::optional<LyapunovExponent>& exponent) {
    if (exponent)
      result[key] = {
          {"mean", number(exponent->mean)}, {"error", number(exponent->error)}, {"runs", exponent->runs}};
  };
  put("lyapunov", statistics.lyapunov), put("true_lyapunov", statistics.true_lyapunov);
  result["autocorrelation"] = to_json(statistics.autocorrelation, "lag");
  result["power"] = to_json(statistics.power, "frequency");
  return result;
}

Json to_json(const Verification& of) {
  const auto four = [](const auto& values) {
    Json result = Json::array();
    for (const double value : values) result.push_back(number(value, 4));
    return result;
  };
  return {{"members", of.members},
          {"trajectories", of.trajectories},
          {"lost_members", of.lost_members},
          {"correlation", number(of.correlation, 4)},
          {"time", numbers(of.time)},
          {"crps", four(of.crps)},
          {"climatology", four(of.climatology)},
          {"persistence", four(of.persistence)},
          {"error", four(of.error)},
          {"spread", four(of.spread)},
          {"lost", four(of.lost)},
          {"ranks", four(of.ranks)},
          {"reliability", {{"forecasts", four(of.forecasts)}, {"observed", four(of.observed)}}}};
}

Json to_json(const ParameterMetrics& metrics) {
  Json groups = Json::array();
  for (const ParameterMetrics::Group& group : metrics.groups)
    groups.push_back({{"value", number(group.value)},
                      {"outside", group.outside},
                      {"trajectories", group.trajectories},
                      {"blow_ups", group.blow_ups},
                      {"mean", number(group.error.mean)},
                      {"std", number(group.error.std)}});
  Json result = Json::object();
  if (metrics.training) result["training"] = {number(metrics.training->from), number(metrics.training->to)};
  result["groups"] = std::move(groups);
  return result;
}

Json to_json(const SplitMetrics& metrics, const System& system) {
  Json intervals = Json::object();
  for (const IntervalMetrics& interval : metrics.intervals)
    intervals[to_string(interval.interval)] = {
        {"resolved", by_variable(system.resolved_names(), interval.resolved)},
        {"closure", by_variable(system.closure_names(), interval.closure)}};
  Json blow_ups = Json::array();
  for (const BlowUp& blow_up : metrics.blow_ups)
    blow_ups.push_back({{"file", blow_up.file}, {"trajectory", blow_up.trajectory}, {"time", blow_up.time}});
  Json result = {{"trajectories", metrics.trajectories},
                 {"intervals", std::move(intervals)},
                 {"cumulative_l2", to_json(metrics.cumulative_l2)},
                 {"correlation", correlation_json(metrics.correlation, metrics.centred_correlation)},
                 {"blow_ups", std::move(blow_ups)}};
  if (metrics.median_trajectory) result["median_trajectory"] = *metrics.median_trajectory;
  if (metrics.outside) {
    Json variables = Json::object();
    for (std::size_t v = 0; v < metrics.outside->variables.size(); ++v)
      variables[system.resolved_names()[v]] = number(metrics.outside->variables[v]);
    result["outside_training_range"] = {{"share", number(metrics.outside->any)},
                                        {"true_share", number(metrics.outside->true_any)},
                                        {"variables", std::move(variables)}};
  }
  for (const ParameterMetrics& parameter : metrics.by_parameter)
    result["by_parameter"][parameter.name] = to_json(parameter);
  if (metrics.statistics) result["statistics"] = to_json(*metrics.statistics);
  if (metrics.verification) result["verification"] = to_json(*metrics.verification);
  result["series"] = series_json(metrics, system);
  return result;
}

/// {model: {sentence, warnings, comparisons: [{split, interval, better_than_no_closure,
/// above_exact_closure}]}}
Json verdicts_json(const Evaluation& evaluation) {
  Json models = Json::object();
  for (const Verdict& verdict : verdicts(evaluation)) {
    Json comparisons = Json::array();
    for (const Comparison& comparison : verdict.comparisons) {
      Json entry = {{"split", comparison.split}, {"interval", comparison.interval}};
      if (comparison.better) entry["better_than_no_closure"] = number(*comparison.better);
      if (comparison.above_floor) entry["above_exact_closure"] = number(*comparison.above_floor);
      if (comparison.memory) entry["better_than_no_memory"] = number(*comparison.memory);
      comparisons.push_back(std::move(entry));
    }
    models[verdict.model] = {{"sentence", verdict.sentence},
                             {"warnings", verdict.warnings},
                             {"comparisons", std::move(comparisons)}};
  }
  return {{"measure", std::string(verdict_measure())}, {"models", std::move(models)}};
}

bool is_flat(const Json& value) {
  return std::ranges::all_of(value, [](const Json& element) { return element.is_primitive(); });
}

/// A list of numbers or an object without objects in it stands on one line.
void write(const Json& value, std::size_t depth, std::string& text) {
  const bool one_line = value.is_primitive() || is_flat(value) || value.contains("seeds");
  if (one_line) {
    text += value.dump();
    return;
  }
  const std::string indent(2 * depth + 2, ' ');
  const char* separator = "\n";
  text += value.is_object() ? '{' : '[';
  for (const auto& [key, element] : value.items()) {
    text += separator + indent;
    if (value.is_object()) text += Json(key).dump() + ": ";
    write(element, depth + 1, text);
    separator = ",\n";
  }
  text += "\n" + std::string(2 * depth, ' ') + (value.is_object() ? '}' : ']');
}

}  // namespace

Json to_json(const Evaluation& evaluation) {
  const System& system = *evaluation.experiment.system;
  Json models = Json::object();
  for (const ModelMetrics& model : evaluation.models) {
    Json entry = Json::object();
    for (const std::string& file : model.files)
      entry["files"].push_back(std::filesystem::path(file).filename().string());
    for (const auto& [name, split] : model.splits) entry[name] = to_json(split, system);
    if (model.validation)
      entry["validation_check"] = {{"horizon", number(model.validation->horizon)},
                                   {"validation_error", number(model.validation->validation_error)},
                                   {"test_error", number(model.validation->test_error)}};
    models[model.model] = std::move(entry);
  }
  return {{"system", std::string(system.name())},
          {"program", fmt::format("mac {} ({})", version(), commit())},
          {"closure_step", evaluation.experiment.data.closure_step()},
          {"verdict", verdicts_json(evaluation)},
          {"models", std::move(models)},
          {"experiment", evaluation.experiment.config.text()}};
}

std::string metrics_text(const Evaluation& evaluation) {
  std::string text;
  write(to_json(evaluation), 0, text);
  return text + "\n";
}

}  // namespace mac
