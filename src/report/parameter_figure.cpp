#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/figures.hpp"
#include "report/style.hpp"

namespace mac::report {

namespace {

/// A model's errors by the parameter's value, over the splits test and ood.
std::map<double, double> errors_by_value(const ModelMetrics& model, const std::string& parameter) {
  std::map<double, double> errors;
  for (const char* split : {"test", "ood"}) {
    const auto metrics = model.splits.find(split);
    if (metrics == model.splits.end()) continue;
    for (const ParameterMetrics& of : metrics->second.by_parameter)
      for (const ParameterMetrics::Group& group : of.groups)
        if (of.name == parameter) errors.emplace(group.value, group.error.mean);  // NaN: all blew up
  }
  return errors;
}

Figure parameter_figure(const Evaluation& evaluation, const std::string& parameter,
                        const std::optional<Interval>& training) {
  Figure figure;
  figure.name = "parameter_" + parameter;
  figure.title = fmt::format("Error against {}", parameter);
  figure.caption = fmt::format(
      "Relative L2 error of the resolved variables over whole rollouts, mean over variables and over the "
      "test "
      "trajectories with that {}{}. A gap: all of them blew up.",
      parameter,
      training ? fmt::format("; the thin lines are the ends of its range in the training data, {}",
                             to_string(*training))
               : "");
  figure.x_label = symbol(parameter);
  Panel panel{"", {{"relative L2 error", true, {}}}};
  double low = HUGE_VAL, high = 0;
  for (const ModelMetrics& model : evaluation.models) {
    Curve curve{model.model, {}, {}};
    for (const auto& [value, error] : errors_by_value(model, parameter)) {
      curve.x.push_back(value);
      curve.y.push_back(error);
      if (error > 0) low = std::min(low, error), high = std::max(high, error);
    }
    if (!curve.x.empty()) panel.axes[0].curves.push_back(std::move(curve));
  }
  if (training && low < high)
    for (const double end : {training->from, training->to})
      panel.axes[0].curves.push_back({"training range", {end, end}, {low, high}, true});
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace

std::vector<Figure> parameter_figures(const Evaluation& evaluation) {
  std::vector<Figure> figures;
  std::set<std::string> drawn;
  for (const ModelMetrics& model : evaluation.models)
    for (const auto& [split, metrics] : model.splits)
      for (const ParameterMetrics& parameter : metrics.by_parameter)
        if (drawn.insert(parameter.name).second)
          figures.push_back(parameter_figure(evaluation, parameter.name, parameter.training));
  return figures;
}

}  // namespace mac::report
