#include <fmt/format.h>

#include <algorithm>
#include <mac/verdict.hpp>

#include "report/figures.hpp"

namespace mac::report {

namespace {

constexpr std::size_t most_quantities = 12, points = 400;

/// The models' statistics of a split.
struct Runs {
  struct Model {
    std::string name;
    const Statistics* of;
  };
  std::string split;
  std::vector<Model> models;
};

std::vector<Runs> runs_of(const Evaluation& evaluation) {
  std::vector<Runs> all;
  for (const std::string split : {"train", "validation", "test", "ood", statistics_split}) {
    Runs runs{split, {}};
    for (const ModelMetrics& model : evaluation.models)
      if (const auto found = model.splits.find(split);
          found != model.splits.end() && found->second.statistics)
        if (!is_floor(model.model)) runs.models.push_back({model.model, &*found->second.statistics});
    if (!runs.models.empty()) all.push_back(std::move(runs));
  }
  return all;
}

Figure densities(const Runs& runs) {
  Figure figure{
      .name = "density_" + runs.split,
      .title = "Distributions in long runs",
      .caption = fmt::format("Densities over all trajectories of split {} from t = {:g} on, about the true "
                             "mean, in standard deviations of the truth.",
                             runs.split, runs.models.front().of->from),
      .x_label = "(value − true mean) / true std"};
  std::vector<std::string> names;
  for (const Runs::Model& model : runs.models)
    for (const QuantityStatistics& q : model.of->quantities)
      if (std::ranges::find(names, q.name) == names.end()) names.push_back(q.name);
  for (const std::string& name : names) {
    if (figure.panels.size() == most_quantities) break;
    Panel panel{name, {{"density", false, {}}}};
    for (const Runs::Model& model : runs.models) {
      const auto q = std::ranges::find(model.of->quantities, name, &QuantityStatistics::name);
      if (q == model.of->quantities.end()) continue;
      // The outermost bins hold all that lies beyond: they are no density.
      Curve truth{"truth", {}, {}}, own{model.name, {}, {}};
      const double width = (q->high - q->low) / static_cast<double>(statistics_bins);
      for (std::size_t k = 1; k + 1 < statistics_bins; ++k) {
        const double middle = q->low + (static_cast<double>(k) + 0.5) * width;
        own.x.push_back((middle - q->true_mean) / q->true_std);
        own.y.push_back(q->density[k] * q->true_std);
        truth.y.push_back(q->true_density[k] * q->true_std);
      }
      truth.x = own.x;
      Axes& axes = panel.axes[0];
      if (axes.curves.empty()) {
        axes.y_range = AxisRange{0, 1.6 * *std::ranges::max_element(truth.y)};
        axes.curves.push_back(std::move(truth));
      }
      axes.curves.push_back(std::move(own));
    }
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

template <class Pick>
Figure spectra(const Runs& runs, Figure figure, const std::string& label, bool log, const Pick& pick) {
  figure.log_x = log;
  Panel panel{"", {{label, log, {}}}};
  auto& curves = panel.axes[0].curves;
  for (const Runs::Model& model : runs.models) {
    const Spectrum& of = pick(*model.of);
    if (of.at.empty()) continue;
    if (curves.empty()) curves.push_back(thinned({"truth", of.at, of.true_values}, points));
    curves.push_back(thinned({model.name, of.at, of.values}, points));
  }
  if (!curves.empty()) figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace

std::vector<Figure> statistics_figures(const Evaluation& evaluation) {
  const std::string_view unit = evaluation.experiment.system->time_unit();
  std::vector<Figure> figures;
  for (const Runs& runs : runs_of(evaluation)) {
    figures.push_back(densities(runs));
    figures.push_back(spectra(
        runs,
        {.name = "autocorrelation_" + runs.split,
         .title = "Autocorrelation in long runs",
         .caption = "Of the resolved variables about their means, mean over variables and trajectories.",
         .x_label = unit == "1" ? "lag" : fmt::format("lag ({})", unit)},
        "autocorrelation", false,
        [](const Statistics& of) -> const Spectrum& { return of.autocorrelation; }));
    figures.push_back(spectra(
        runs,
        {.name = "power_" + runs.split,
         .title = "Power spectrum of long runs",
         .caption = "Of the resolved variables, Hann windows that overlap by half, mean over variables.",
         .x_label = unit == "1" ? "frequency" : fmt::format("frequency (1/{})", unit)},
        "power", true, [](const Statistics& of) -> const Spectrum& { return of.power; }));
  }
  std::erase_if(figures, [](const Figure& figure) { return figure.panels.empty(); });
  return figures;
}

}  // namespace mac::report
