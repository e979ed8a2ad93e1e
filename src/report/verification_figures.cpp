#include <fmt/format.h>

#include "report/figures.hpp"

namespace mac::report {

namespace {

struct Forecast {
  std::string model;
  const Verification* of;
};

std::vector<Forecast> forecasts_of(const Evaluation& evaluation, const std::string& split) {
  std::vector<Forecast> all;
  for (const ModelMetrics& model : evaluation.models)
    if (const auto found = model.splits.find(split);
        found != model.splits.end() && found->second.verification)
      all.push_back({model.model, &*found->second.verification});
  return all;
}

/// Climatology and persistence are the same for all models.
Figure scores(const std::vector<Forecast>& forecasts, const std::string& split, const std::string& x_label) {
  Figure figure{
      .name = "crps_" + split,
      .title = "Score of the forecasts",
      .caption =
          "Continuous ranked probability score in standard deviations of the truth, mean over variables "
          "and trajectories; lower is better.",
      .x_label = x_label};
  Panel panel{"", {{"CRPS", false, {}}}};
  const Verification& first = *forecasts.front().of;
  panel.axes[0].curves.push_back({"climatology", first.time, first.climatology});
  panel.axes[0].curves.push_back({"persistence", first.time, first.persistence});
  for (const auto& [model, of] : forecasts) panel.axes[0].curves.push_back({model, of->time, of->crps});
  figure.panels.push_back(std::move(panel));
  return figure;
}

/// A panel a model.
template <class Fill>
Figure by_model(const std::vector<Forecast>& forecasts, Figure figure, const std::string& y_label,
                const Fill& fill) {
  for (const auto& [model, of] : forecasts) {
    Panel panel{model, {{y_label, false, {}}}};
    fill(*of, model, panel.axes[0]);
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

}  // namespace

std::vector<Figure> verification_figures(const Evaluation& evaluation) {
  const std::string x_label = time_label(evaluation.experiment.system->time_unit());
  std::vector<Figure> figures;
  for (const std::string split : {"test", "ood"}) {
    const std::vector<Forecast> forecasts = forecasts_of(evaluation, split);
    if (forecasts.empty()) continue;
    figures.push_back(scores(forecasts, split, x_label));
    figures.push_back(by_model(forecasts,
                               {.name = "spread_" + split,
                                .title = "Spread and error",
                                .caption = "Error of the ensemble mean, and the spread of the members, which "
                                           "is as large where the truth could "
                                           "be one of them; in standard deviations of the truth.",
                                .x_label = x_label},
                               "std", [](const Verification& of, const std::string& model, Axes& axes) {
                                 axes.curves.push_back({"error of the mean", of.time, of.error});
                                 axes.curves.push_back({model, of.time, of.spread});
                               }));
    figures.push_back(by_model(forecasts,
                               {.name = "ranks_" + split,
                                .title = "Ranks",
                                .caption = "How often the truth lies above so many members, times the number "
                                           "of ranks: 1 where the ensemble is "
                                           "right, high at both ends where it spreads too little.",
                                .x_label = "members below the truth"},
                               "share", [](const Verification& of, const std::string& model, Axes& axes) {
                                 Curve ranks{model, {}, {}}, level{"uniform", {}, {}};
                                 for (std::size_t r = 0; r < of.ranks.size(); ++r) {
                                   ranks.x.push_back(static_cast<double>(r));
                                   ranks.y.push_back(of.ranks[r] * static_cast<double>(of.ranks.size()));
                                 }
                                 level.x = {0, static_cast<double>(of.members)}, level.y = {1, 1};
                                 axes.curves.push_back(std::move(level));
                                 axes.curves.push_back(std::move(ranks));
                               }));
    figures.push_back(by_model(forecasts,
                               {.name = "reliability_" + split,
                                .title = "Reliability",
                                .caption = "How often a variable was among its largest tenth where the "
                                           "ensemble gave that this probability.",
                                .x_label = "probability"},
                               "frequency", [](const Verification& of, const std::string& model, Axes& axes) {
                                 Curve curve{model, {}, {}};
                                 for (std::size_t k = 0; k < reliability_bins; ++k) {
                                   curve.x.push_back(static_cast<double>(k) /
                                                     static_cast<double>(reliability_bins - 1));
                                   curve.y.push_back(of.observed[k]);
                                 }
                                 axes.curves.push_back({"uniform", {0, 1}, {0, 1}});
                                 axes.curves.push_back(std::move(curve));
                               }));
  }
  return figures;
}

}  // namespace mac::report
