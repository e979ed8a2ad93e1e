// Reading metrics back, and evaluating stored metrics and rollouts together. The layout is in json.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <nlohmann/json.hpp>

#include "evaluation/evaluator.hpp"
#include "io/json_text.hpp"
#include "rollout/rollout_file.hpp"
#include "systems/described.hpp"

namespace mac {

namespace {

using Json = nlohmann::ordered_json;

/// A value of the file with the way to it, for messages: "results/burgers.json: models.mac.test.intervals".
class Node {
 public:
  Node(const Json& value, std::string file, std::string path = "")
      : value_(value), file_(std::move(file)), path_(std::move(path)) {}

  Node at(const std::string& key) const {
    const auto found = value_.is_object() ? value_.find(key) : value_.end();
    if (found == value_.end()) throw Error("{}: has no \"{}\"", file_, joined(key));
    return {*found, file_, joined(key)};
  }
  bool has(const std::string& key) const { return value_.is_object() && value_.contains(key); }

  std::vector<std::pair<std::string, Node>> members() const {
    if (!value_.is_object()) fail("an object");
    std::vector<std::pair<std::string, Node>> result;
    for (const auto& [key, value] : value_.items()) result.emplace_back(key, Node(value, file_, joined(key)));
    return result;
  }
  std::vector<Node> elements() const {
    if (!value_.is_array()) fail("a list");
    std::vector<Node> result;
    for (std::size_t i = 0; i < value_.size(); ++i)
      result.emplace_back(value_[i], file_, joined(fmt::format("{}", i)));
    return result;
  }
  double number() const {
    if (value_.is_null()) return std::nan("");
    if (!value_.is_number()) fail("a number or null");
    return value_.get<double>();
  }
  std::size_t count() const {
    if (!value_.is_number_unsigned()) fail("a count");
    return value_.get<std::size_t>();
  }
  bool boolean() const {
    if (!value_.is_boolean()) fail("true or false");
    return value_.get<bool>();
  }
  std::string string() const {
    if (!value_.is_string()) fail("a string");
    return value_.get<std::string>();
  }
  std::vector<double> numbers() const {
    std::vector<double> result;
    for (const Node& element : elements()) result.push_back(element.number());
    return result;
  }
  [[noreturn]] void fail(const std::string& expected) const {
    throw Error("{}: \"{}\" is {}, expected {}", file_, path_, value_.dump().substr(0, 40), expected);
  }

 private:
  std::string joined(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  const Json& value_;
  std::string file_, path_;
};

/// A mean without a deviation.
MeanStd read_mean(const Node& node, const std::string& prefix) {
  MeanStd cell{node.at(prefix + "mean").number(), std::nan(""), {}};
  if (node.has(prefix + "seeds")) cell.seeds = node.at(prefix + "seeds").numbers();
  return cell;
}

MeanStd read_cell(const Node& node) {
  MeanStd cell = read_mean(node, "");
  cell.std = node.at("std").number();
  return cell;
}

std::vector<MeanStd> read_cells(const Node& node, const std::vector<std::string>& names) {
  std::vector<MeanStd> cells;
  for (const std::string& name : names) cells.push_back(read_cell(node.at(name)));
  return cells;
}

/// "[0,1]"
Interval read_interval(const std::string& text, const Node& node) {
  Interval interval;
  const char* const end = text.data() + text.size();
  if (text.starts_with('[')) {
    const auto from = std::from_chars(text.data() + 1, end, interval.from);
    if (from.ec == std::errc() && from.ptr != end && *from.ptr == ',') {
      const auto to = std::from_chars(from.ptr + 1, end, interval.to);
      if (to.ec == std::errc() && std::string_view(to.ptr, end) == "]") return interval;
    }
  }
  node.fail("to be named after an interval, [from,to]");
}

/// As long as the times, or empty where the system has no such series.
Series read_series(const Node& series, const std::string& key, std::size_t times) {
  if (!series.has(key)) return {};
  Series values = series.at(key).numbers();
  if (values.size() != times && !values.empty())
    series.at(key).fail(fmt::format("one number for each of the {} times", times));
  return values;
}

OutsideShare read_outside(const Node& node, const System& system) {
  OutsideShare outside{node.at("share").number(), node.at("true_share").number(), {}};
  for (const std::string& name : system.resolved_names())
    outside.variables.push_back(node.at("variables").at(name).number());
  return outside;
}

Distance read_distance(const Node& node) { return {node.at("value").number(), node.at("floor").number()}; }

Spectrum read_spectrum(const Node& node, const char* at) {
  Spectrum spectrum{node.at(at).numbers(), node.at("values").numbers(), node.at("true_values").numbers()};
  if (spectrum.values.size() != spectrum.at.size() || spectrum.true_values.size() != spectrum.at.size())
    node.fail("lists of one length");
  return spectrum;
}

Statistics read_statistics(const Node& node) {
  Statistics statistics;
  statistics.from = node.at("from").number(), statistics.trajectories = node.at("trajectories").count();
  for (const auto& [name, of] : node.at("quantities").members()) {
    const auto rare = [&of = of](const char* key) {
      return of.has(key) ? of.at(key).number() : std::nan("");
    };
    QuantityStatistics q{.name = name,
                         .mean = of.at("mean").number(),
                         .std = of.at("std").number(),
                         .true_mean = of.at("true_mean").number(),
                         .true_std = of.at("true_std").number(),
                         .hellinger = read_distance(of.at("hellinger")),
                         .wasserstein = read_distance(of.at("wasserstein")),
                         .kullback_leibler = read_distance(of.at("kullback_leibler")),
                         .above = of.at("above").number(),
                         .below = of.at("below").number(),
                         .far_above = rare("far_above"),
                         .far_below = rare("far_below"),
                         .low = of.at("low").number(),
                         .high = of.at("high").number(),
                         .density = of.at("density").numbers(),
                         .true_density = of.at("true_density").numbers()};
    if (q.density.size() != statistics_bins || q.true_density.size() != statistics_bins)
      of.at("density").fail(fmt::format("{} numbers, and as many of true_density", statistics_bins));
    statistics.quantities.push_back(std::move(q));
  }
  if (node.has("neighbours")) statistics.neighbours = read_distance(node.at("neighbours"));
  const auto read = [&](const char* key) -> std::optional<LyapunovExponent> {
    if (!node.has(key)) return std::nullopt;
    const Node of = node.at(key);
    return LyapunovExponent{of.at("mean").number(), of.at("error").number(), of.at("runs").count()};
  };
  statistics.lyapunov = read("lyapunov"), statistics.true_lyapunov = read("true_lyapunov");
  statistics.autocorrelation = read_spectrum(node.at("autocorrelation"), "lag");
  statistics.power = read_spectrum(node.at("power"), "frequency");
  return statistics;
}

Verification read_verification(const Node& node) {
  Verification of;
  of.members = node.at("members").count(), of.trajectories = node.at("trajectories").count();
  of.correlation = node.at("correlation").number();
  of.time = node.at("time").numbers();
  if (of.time.empty()) node.at("time").fail("at least one lead time");
  const auto series = [&](const char* key) {
    std::vector<double> values = node.at(key).numbers();
    if (values.size() != of.time.size()) node.at(key).fail("one number for each lead time");
    return values;
  };
  of.crps = series("crps"), of.climatology = series("climatology"), of.persistence = series("persistence");
  of.error = series("error"), of.spread = series("spread");
  if (node.has("lost")) {
    of.lost = series("lost"), of.lost_members = node.at("lost_members").count();
  } else {  // of an earlier version, which left trajectories out that lost a member
    of.lost.resize(of.time.size());
  }
  of.ranks = node.at("ranks").numbers();
  if (of.ranks.size() != of.members + 1) node.at("ranks").fail("one number more than there are members");
  const auto bins = [&](const char* key, std::array<double, reliability_bins>& to) {
    const std::vector<double> values = node.at("reliability").at(key).numbers();
    if (values.size() != reliability_bins)
      node.at("reliability").at(key).fail(fmt::format("{} numbers", reliability_bins));
    std::ranges::copy(values, to.begin());
  };
  bins("forecasts", of.forecasts), bins("observed", of.observed);
  return of;
}

ParameterMetrics read_parameter(const std::string& name, const Node& node) {
  ParameterMetrics metrics{name, std::nullopt, {}};
  if (node.has("training")) {
    const std::vector<double> range = node.at("training").numbers();
    if (range.size() != 2) node.at("training").fail("two numbers");
    metrics.training = Interval{range[0], range[1]};
  }
  for (const Node& group : node.at("groups").elements())
    metrics.groups.push_back({group.at("value").number(),
                              group.at("outside").boolean(),
                              group.at("trajectories").count(),
                              group.at("blow_ups").count(),
                              {group.at("mean").number(), group.at("std").number()}});
  return metrics;
}

SplitMetrics read_split(const Node& node, const System& system) {
  SplitMetrics metrics;
  if (node.has("by_parameter"))
    for (const auto& [name, of] : node.at("by_parameter").members())
      metrics.by_parameter.push_back(read_parameter(name, of));
  if (node.has("statistics")) metrics.statistics = read_statistics(node.at("statistics"));
  if (node.has("verification")) metrics.verification = read_verification(node.at("verification"));
  if (node.has("median_trajectory")) metrics.median_trajectory = node.at("median_trajectory").count();
  if (node.has("outside_training_range"))
    metrics.outside = read_outside(node.at("outside_training_range"), system);
  metrics.trajectories = node.at("trajectories").count();
  for (const auto& [key, interval] : node.at("intervals").members())
    metrics.intervals.push_back({read_interval(key, interval),
                                 read_cells(interval.at("resolved"), system.resolved_names()),
                                 read_cells(interval.at("closure"), system.closure_names())});
  metrics.cumulative_l2 = read_cell(node.at("cumulative_l2"));
  metrics.correlation = read_mean(node.at("correlation"), "");
  metrics.centred_correlation = read_mean(node.at("correlation"), "centred_");
  for (const Node& blow_up : node.at("blow_ups").elements())
    metrics.blow_ups.push_back(
        {blow_up.at("file").string(), blow_up.at("trajectory").count(), blow_up.at("time").number()});
  const Node series = node.at("series");
  metrics.time = series.at("time").numbers();
  if (metrics.time.empty()) series.at("time").fail("at least one time");
  const auto read = [&](const char* key) { return read_series(series, key, metrics.time.size()); };
  metrics.running_l2 = read("running_l2");
  metrics.running_correlation = read("running_correlation");
  metrics.running_centred_correlation = read("running_centred_correlation");
  metrics.physical_l2 = read("physical_l2");
  metrics.energy = read("energy");
  metrics.true_energy = read("true_energy");
  if (series.has("physical_l2_of"))
    for (const auto& [label, values] : series.at("physical_l2_of").members()) {
      metrics.labelled_physical_l2[label] =
          read_series(series.at("physical_l2_of"), label, metrics.time.size());
      if (metrics.labelled_physical_l2[label].empty()) values.fail("a number for each time");
    }
  return metrics;
}

ModelMetrics read_model(const std::string& name, const Node& node, const System& system) {
  ModelMetrics model{name, {}, {}};
  for (const auto& [key, value] : node.members())
    if (key == "files")
      for (const Node& file : value.elements()) model.files.push_back(file.string());
    else if (key == "validation_check")
      model.validation = ValidationCheck{value.at("horizon").number(), value.at("validation_error").number(),
                                         value.at("test_error").number()};
    else
      model.splits.emplace(key, read_split(value, system));
  return model;
}

/// Variables are the members of a table, in order.
std::vector<std::string> names_of(const Node& table) {
  std::vector<std::string> names;
  for (const auto& [name, value] : table.members()) names.push_back(name);
  return names;
}

/// What the tables of the first model say about the system.
SystemDescription description_in(const Node& root) {
  SystemDescription description;
  description.name = root.has("system") ? root.at("system").string() : "";
  for (const auto& [model, splits] : root.at("models").members())
    for (const auto& [key, split] : splits.members()) {
      if (!split.has("intervals") || !split.has("series")) continue;
      for (const auto& [interval, tables] : split.at("intervals").members()) {
        description.resolved_names = names_of(tables.at("resolved"));
        description.closure_names = names_of(tables.at("closure"));
        if (split.at("series").has("physical_l2"))
          description.fourier_modes = description.resolved_names.size() / 2;
        description.closure_targets = targets_by_name(description.resolved_names, description.closure_names);
        return description;
      }
    }
  return description;
}

bool is_json(const std::string& path) { return path.ends_with(".json"); }

}  // namespace

Evaluation read_metrics(const std::string& path) {
  const Json json = Json::parse(read_json_text(path), nullptr, false);
  if (json.is_discarded()) throw Error("{}: is not JSON", path);
  const Node root(json, path);
  Evaluation evaluation{
      Experiment::parse(root.at("experiment").string(), path + " (experiment)", description_in(root)), {}};
  for (const auto& [name, model] : root.at("models").members())
    evaluation.models.push_back(read_model(name, model, *evaluation.experiment.system));
  return evaluation;
}

Evaluation evaluate_files(const std::vector<std::string>& paths, const EvaluateOptions& options) {
  Evaluator evaluator(options.statistics, options.from);
  RolloutData truths(options.data);
  std::string first_rollout;
  std::vector<std::pair<std::string, Evaluation>> parts;
  for (const std::string& path : paths) {
    if (is_json(path)) {
      parts.emplace_back(path, read_metrics(path));
      continue;
    }
    const RolloutReader reader(path);
    RolloutFile rollout = reader.header();
    for (const std::string& split : reader.splits()) rollout.splits.push_back(reader.read(split, truths));
    if (options.experiment) rollout.experiment = *options.experiment;
    evaluator.add(std::move(rollout));
    if (first_rollout.empty()) first_rollout = path;
  }
  if (!first_rollout.empty() || parts.empty())
    parts.emplace(parts.begin(), first_rollout, evaluator.finish());
  Evaluation& whole = parts.front().second;
  for (auto part = parts.begin() + 1; part != parts.end(); ++part) {
    const auto& [path, evaluation] = *part;
    check_same_equations(path, evaluation.experiment, parts.front().first, whole.experiment);
    for (const ModelMetrics& model : evaluation.models) {
      if (std::ranges::find(whole.models, model.model, &ModelMetrics::model) != whole.models.end())
        throw UsageError(
            "{}: has the model {}, which another file has as well; stored means cannot be pooled, evaluate "
            "the rollouts together",
            path, model.model);
      whole.models.push_back(model);
    }
  }
  return std::move(whole);
}

}  // namespace mac
