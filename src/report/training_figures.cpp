// Figures of what models cost and how they were trained.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <mac/error.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/input_file.hpp"
#include "report/figures.hpp"

namespace mac::report {

namespace {

constexpr std::size_t curve_points = 500;

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line)
    if (c == ',')
      fields.emplace_back();
    else if (c != '\r')
      fields.back() += c;
  return fields;
}

/// A number of a CSV file; an empty field is NaN.
double number(const std::string& text, const std::string& path, std::size_t line) {
  if (text.empty()) return NAN;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error("{}:{}: \"{}\" is not a number", path, line, text);
  return value;
}

}  // namespace

std::vector<StepTimes> step_times(const std::vector<RolloutReader>& rollouts) {
  std::vector<StepTimes> times;
  for (const RolloutReader& rollout : rollouts)
    for (const std::string& split : rollout.splits()) {
      const bool known = std::ranges::any_of(times, [&](const StepTimes& other) {
        return other.model == rollout.model() && other.split == split;
      });
      if (known) continue;
      if (std::vector<double> seconds = rollout.seconds_per_step(split); seconds.size() > 1)
        times.push_back({rollout.model(), split, rollout.trajectories(split), std::move(seconds)});
    }
  return times;
}

std::optional<Figure> step_time_figure(const std::vector<StepTimes>& times) {
  Figure figure;
  figure.name = "step_time";
  figure.title = "Wall time of a rollout step";
  figure.caption =
      "Wall time of each step of the first group of trajectories, medians over runs of neighbouring steps. A "
      "recurrent memory costs the same at every step, an explicit one more and more.";
  figure.x_label = "step";
  std::vector<std::string> splits;
  for (const StepTimes& series : times)
    if (std::ranges::find(splits, series.split) == splits.end()) splits.push_back(series.split);
  for (const std::string& split : splits) {
    Panel panel{splits.size() > 1 ? "split " + split : "", {{"time per step (ms)", true, {}}}};
    for (const StepTimes& series : times) {
      if (series.split != split) continue;
      Curve curve{series.model, {}, {}};
      for (std::size_t n = 0; n + 1 < series.seconds.size(); ++n) {  // the last time has no step after it
        curve.x.push_back(static_cast<double>(n));
        curve.y.push_back(1e3 * series.seconds[n]);
      }
      panel.axes[0].curves.push_back(smoothed(curve, curve_points / 2));
    }
    figure.panels.push_back(std::move(panel));
  }
  return figure.panels.empty() ? std::nullopt : std::optional(figure);
}

TrainingHistory read_history(const std::string& path, const std::string& model) {
  std::istringstream stream(read_file(path));
  TrainingHistory history;
  history.model = model;
  std::string line;
  std::getline(stream, line);
  const std::vector<std::string> header = fields_of(line);
  const auto column = [&](const char* name) {
    const auto found = std::ranges::find(header, name);
    if (found == header.end()) throw Error("{}:1: has no column \"{}\"", path, name);
    return static_cast<std::size_t>(found - header.begin());
  };
  const std::size_t step = column("step"), loss = column("loss"), validation = column("validation");
  for (std::size_t n = 2; std::getline(stream, line); ++n) {
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() != header.size())
      throw Error("{}:{}: has {} columns, expected {}", path, n, fields.size(), header.size());
    history.step.push_back(number(fields[step], path, n));
    history.loss.push_back(number(fields[loss], path, n));
    if (fields[validation].empty()) continue;
    history.validation_step.push_back(history.step.back());
    history.validation.push_back(number(fields[validation], path, n));
  }
  return history;
}

std::optional<Figure> training_figure(const std::vector<TrainingHistory>& histories) {
  Figure figure;
  figure.name = "training";
  figure.title = "Training";
  figure.caption =
      "Training loss (medians over neighbouring steps) and what the weights were selected by on validation "
      "data, of every seed.";
  figure.x_label = "optimiser step";
  Panel loss{"training loss", {{"loss", true, {}}}}, validation{"validation", {{"validation", true, {}}}};
  std::map<std::string, int> seen;
  for (const TrainingHistory& history : histories) {
    const bool faint = seen[history.model]++ > 0;
    loss.axes[0].curves.push_back(
        smoothed({history.model, history.step, history.loss, faint}, curve_points / 2));
    if (!history.validation.empty())
      validation.axes[0].curves.push_back(
          smoothed({history.model, history.validation_step, history.validation, faint}, curve_points));
  }
  if (!loss.axes[0].curves.empty()) figure.panels.push_back(std::move(loss));
  if (!validation.axes[0].curves.empty()) figure.panels.push_back(std::move(validation));
  return figure.panels.empty() ? std::nullopt : std::optional(figure);
}

std::optional<Figure> training_time_figure(const nlohmann::json& timing, const std::string& file) {
  const auto list = timing.find("training");
  if (list == timing.end() || list->empty()) return std::nullopt;
  std::map<std::string, std::vector<std::pair<double, double>>> series;
  try {
    for (const auto& entry : *list) {
      const std::string kind = entry.value("kind", "");
      const std::string model = entry.value("model", kind == "mamba" ? "mac" : kind);
      series[model].emplace_back(entry.at("length").get<double>(),
                                 entry.at("milliseconds_per_iteration").get<double>());
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(
        "{}: every entry of \"training\" needs numbers \"length\" and \"milliseconds_per_iteration\", and a "
        "\"kind\" or \"model\"",
        file);
  }
  Figure figure;
  figure.name = "training_time";
  figure.title = "Training time against sequence length";
  figure.caption = "Wall time of one training iteration (forward and backward pass of a batch).";
  figure.x_label = "sequence length";
  figure.log_x = true;
  Panel panel{"", {{"time per iteration (ms)", true, {}}}};
  for (auto& [model, points] : series) {
    std::ranges::sort(points);
    Curve curve{model, {}, {}};
    for (const auto& [length, milliseconds] : points) {
      curve.x.push_back(length);
      curve.y.push_back(milliseconds);
    }
    panel.axes[0].curves.push_back(std::move(curve));
  }
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace mac::report
