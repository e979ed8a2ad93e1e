#include "report/figures.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <mac/verdict.hpp>
#include <span>

#include "report/style.hpp"

namespace mac::report {

namespace {

constexpr std::size_t panel_points = 400, single_points = 1000, multiple_points = 150;  // per curve
constexpr std::size_t most_panels = 8;  // of variables, each with its error; of more, `few_panels` are drawn
constexpr std::size_t few_panels = 4;
constexpr std::size_t most_multiples = 36;  // small ones

/// |predicted - true| / |true| over one trajectory, where the truth is known; NaN after a blow-up.
double relative_error(std::span<const double> predicted, std::span<const double> truth) {
  double error = 0, norm = 0;
  for (std::size_t k = 0; k < std::min(predicted.size(), truth.size()); ++k) {
    if (std::isnan(truth[k])) continue;
    error += (predicted[k] - truth[k]) * (predicted[k] - truth[k]);
    norm += truth[k] * truth[k];
  }
  return std::sqrt(error / norm);
}

/// The rollout by which a representative trajectory is chosen: mac's, else that of any learned or fitted
/// model, else the first.
const RolloutReader* leading_rollout(const std::vector<RolloutReader>& rollouts, const std::string& split) {
  const auto rank = [](const std::string& model) {
    if (model == "mac") return 0;
    return model == "markov" || is_floor(model) ? 2 : 1;
  };
  const RolloutReader* best = nullptr;
  for (const RolloutReader& rollout : rollouts)
    if (rollout.has(split) && (!best || rank(rollout.model()) < rank(best->model()))) best = &rollout;
  return best;
}

/// 0 where all trajectories blew up.
std::size_t median_trajectory(const Evaluation& evaluation, const std::string& model,
                              const std::string& split) {
  const auto metrics = std::ranges::find(evaluation.models, model, &ModelMetrics::model);
  return metrics == evaluation.models.end() ? 0 : metrics->splits.at(split).median_trajectory.value_or(0);
}

Curve curve_of(const Case::Rollout& rollout, const std::vector<double>& values, std::size_t width,
               std::size_t v) {
  Curve curve{rollout.model, rollout.time, {}};
  for (std::size_t t = 0; t < rollout.time.size(); ++t) curve.y.push_back(values[t * width + v]);
  return curve;
}

Curve error_curve(const Curve& predicted, const Curve& truth) {
  Curve error = predicted;
  for (std::size_t t = 0; t < error.y.size(); ++t)
    error.y[t] = t < truth.y.size() ? std::abs(predicted.y[t] - truth.y[t]) : NAN;
  return error;
}

/// Room for the truth, and for models only as far as they stay near it.
std::optional<AxisRange> range_around_truth(const Curve& truth, const std::vector<Curve>& models) {
  double low = INFINITY, high = -INFINITY, lowest = INFINITY, highest = -INFINITY;
  for (const double y : truth.y)
    if (std::isfinite(y)) low = std::min(low, y), high = std::max(high, y);
  for (const Curve& model : models)
    for (const double y : model.y)
      if (std::isfinite(y)) lowest = std::min(lowest, y), highest = std::max(highest, y);
  const double span = high - low;
  if (!(span > 0) || (lowest > low - span && highest < high + span)) return std::nullopt;
  return AxisRange{std::max(lowest, low - span / 2), std::min(highest, high + span / 2)};
}

/// Of models that a pair of axes leaves out: in which panels.
using LeftOut = std::vector<std::pair<std::string, std::vector<std::string>>>;

void leave_out(LeftOut& left_out, const std::string& model, const std::string& panel) {
  auto found = std::ranges::find(left_out, model, &LeftOut::value_type::first);
  if (found == left_out.end()) found = left_out.insert(left_out.end(), {model, {}});
  found->second.push_back(panel);
}

/// " Only as errors: markov in φ₃, ψ₃ (further from the truth than zero is)."
std::string left_out_words(const LeftOut& left_out, std::size_t panels) {
  std::string text;
  for (const auto& [model, where] : left_out)
    text += fmt::format("{}{}{}", text.empty() ? "" : "; ", model,
                        where.size() == panels ? "" : fmt::format(" in {}", fmt::join(where, ", ")));
  return text.empty()
             ? text
             : fmt::format(" Drawn as errors only, being further from the truth than zero is: {}.", text);
}

/// Value above, absolute error below. Only below: the floor, which the truth would hide, and models further
/// from the truth than zero is, which would hide everything.
Panel value_and_error(const std::string& label, const Curve& truth_curve, const std::vector<Curve>& models,
                      std::size_t points, LeftOut& left_out) {
  std::vector<Curve> above;
  for (const Curve& model : models) {
    if (is_floor(model.model)) continue;
    if (relative_error(model.y, truth_curve.y) > 1)
      leave_out(left_out, model.model, label);
    else
      above.push_back(model);
  }
  Axes value{label, false, {thinned(truth_curve, points)}, range_around_truth(truth_curve, above)};
  for (const Curve& model : above) value.curves.push_back(thinned(model, points));
  Axes error{"|error|", true, {}};
  for (const Curve& model : models) error.curves.push_back(thinned(error_curve(model, truth_curve), points));
  return {"", {std::move(value), std::move(error)}};
}

/// The end of the training data, where the split goes on beyond it.
std::optional<double> training_end(const Experiment& experiment, const std::string& split) {
  double train = 0, shown = 0;
  for (const SplitPlan& plan : experiment.data.splits) {
    if (plan.name == "train") train = plan.horizon;
    if (plan.name == split) shown = plan.horizon;
  }
  return train > 0 && train < shown ? std::optional(train) : std::nullopt;
}

std::string split_words(const std::string& split) {
  return split == "ood" ? "out of distribution" : split == "test" ? "test data" : split + " data";
}

std::string title_of(const std::string& what, const std::string& split) {
  return fmt::format("{}, {}", what, split_words(split));
}

std::string case_words(const Case& shown) {
  return fmt::format("Trajectory {} of split {} (median error)", shown.trajectory, shown.split);
}

/// Relative error in percent of each variable over each interval.
Table case_table(const Experiment& experiment, const Case& shown, Quantity quantity,
                 const std::vector<std::string>& names) {
  const bool resolved = quantity == Quantity::resolved;
  auto intervals =
      shown.split == "ood" ? experiment.evaluation.ood_intervals : experiment.evaluation.intervals;
  if (intervals.empty()) intervals = {{shown.truth.time.front(), shown.truth.time.back()}};
  Table table{
      fmt::format("Relative L2 error of this {} in %", resolved ? "trajectory" : "trajectory's closure"),
      {"variable", "interval"},
      {}};
  for (const Case::Rollout& rollout : shown.models) table.header.push_back(rollout.model);
  for (std::size_t v = 0; v < names.size(); ++v)
    for (const Interval& interval : intervals) {
      std::vector<std::string> row{symbol(names[v]), to_string(interval)};
      for (const Case::Rollout& rollout : shown.models) {
        std::vector<double> predicted, truth;
        for (std::size_t t = 0; t < std::min(rollout.time.size(), shown.truth.time.size()); ++t) {
          if (rollout.time[t] < interval.from - 1e-9 || rollout.time[t] > interval.to + 1e-9) continue;
          const std::size_t at = t * names.size() + v;
          predicted.push_back((resolved ? rollout.resolved : rollout.closure)[at]);
          truth.push_back((resolved ? shown.truth.resolved : shown.truth.closure)[at]);
        }
        const double error = 100 * relative_error(predicted, truth);
        row.push_back(std::isfinite(error) ? fmt::format("{:.3g}", error) : "-");
      }
      table.rows.push_back(std::move(row));
    }
  return table;
}

/// Whether the models end so far apart that a linear axis would show the worst one only.
bool far_apart(const Evaluation& evaluation, const std::string& split) {
  double least = INFINITY, largest = 0;
  for (const ModelMetrics& model : evaluation.models)
    if (const auto metrics = model.splits.find(split);
        metrics != model.splits.end() && !is_floor(model.model)) {
      const double error = metrics->second.cumulative_l2.mean;
      if (error > 0) least = std::min(least, error), largest = std::max(largest, error);
    }
  return largest > 30 * least;
}

/// A figure of one series of each model's metrics.
template <class Pick>
std::optional<Figure> series_figure(const Evaluation& evaluation, const std::string& split, Figure figure,
                                    const std::string& label, bool log_y, const Pick& pick) {
  Panel panel{"", {{label, log_y, {}}}};
  for (const ModelMetrics& model : evaluation.models) {
    const auto metrics = model.splits.find(split);
    if (metrics == model.splits.end()) continue;
    if (const Series* series = pick(metrics->second); series && !series->empty())
      panel.axes[0].curves.push_back(thinned({model.model, metrics->second.time, *series}, single_points));
  }
  if (panel.axes[0].curves.empty()) return std::nullopt;
  figure.x_label = time_label(evaluation.experiment.system->time_unit());
  figure.panels.push_back(std::move(panel));
  return figure;
}

std::string name_from(const std::string& label) {
  std::string name;
  for (const char c : label) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

}  // namespace

std::string time_label(std::string_view unit) {
  return unit == "1" ? "time t" : fmt::format("time t ({})", unit);
}

std::optional<Case> representative_case(const Evaluation& evaluation,
                                        const std::vector<RolloutReader>& rollouts, RolloutData& truths,
                                        const std::string& split) {
  const RolloutReader* leading = leading_rollout(rollouts, split);
  if (!leading) return std::nullopt;
  Case result;
  result.split = split;
  result.trajectory = median_trajectory(evaluation, leading->model(), split);
  RolloutSplit shown = leading->read(split, truths, result.trajectory, 1);
  result.truth = {std::string(truth), shown.time, std::move(shown.true_resolved),
                  std::move(shown.true_closure)};
  for (const RolloutReader& rollout : rollouts) {
    const bool known =
        std::ranges::find(result.models, rollout.model(), &Case::Rollout::model) != result.models.end();
    if (known || !rollout.has(split) || result.trajectory >= rollout.trajectories(split)) continue;
    RolloutSplit own = rollout.read(split, result.trajectory, 1);
    result.models.push_back(
        {rollout.model(), std::move(own.time), std::move(own.resolved), std::move(own.closure)});
  }
  return result;
}

namespace {

/// `count` of 0..n-1, evenly.
std::vector<std::size_t> spread_over(std::size_t n, std::size_t count) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < std::min(n, count); ++i) chosen.push_back(i * n / std::min(n, count));
  return chosen;
}

}  // namespace

std::vector<Figure> trajectory_figures(const Experiment& experiment, const Case& shown, Quantity quantity) {
  const System& system = *experiment.system;
  const bool resolved = quantity == Quantity::resolved;
  const auto& names = resolved ? system.resolved_names() : system.closure_names();
  Case drawn = shown;
  if (!resolved)  // these two have no closure of their own
    std::erase_if(drawn.models,
                  [](const Case::Rollout& m) { return m.model == "markov" || is_floor(m.model); });

  Figure figure;
  figure.name = fmt::format("{}_{}", resolved ? "resolved" : "closure", shown.split);
  figure.title = title_of(resolved ? "Resolved variables" : "Closure", shown.split);
  figure.mark = training_end(experiment, shown.split);
  figure.x_label = time_label(system.time_unit());
  LeftOut left_out;
  const auto add_panel = [&](Figure& to, std::size_t v, std::size_t points) {
    const auto curve = [&](const Case::Rollout& rollout) {
      return curve_of(rollout, resolved ? rollout.resolved : rollout.closure, names.size(), v);
    };
    std::vector<Curve> models;
    for (const Case::Rollout& rollout : drawn.models) models.push_back(curve(rollout));
    to.panels.push_back(value_and_error(symbol(names[v]), curve(drawn.truth), models, points, left_out));
  };
  const bool many = names.size() > most_panels;
  const std::vector<std::size_t> large = spread_over(names.size(), many ? few_panels : names.size());
  for (const std::size_t v : large) add_panel(figure, v, panel_points);
  figure.caption =
      fmt::format("{}{}: truth and models above, absolute error below.{}{}{}", case_words(shown),
                  many ? fmt::format(", {} of {} variables", large.size(), names.size()) : "",
                  left_out_words(left_out, large.size()),
                  resolved ? " The floor (exact) is drawn as an error only, for the truth would hide it."
                           : " markov has no closure, and that of exact is the truth.",
                  figure.mark ? fmt::format(" The dashed line at t = {:g} ends the time that the "
                                            "training data cover.",
                                            *figure.mark)
                              : "");
  if (!drawn.models.empty()) figure.tables.push_back(case_table(experiment, drawn, quantity, names));
  if (!many) return {std::move(figure)};

  Figure all;
  all.name = figure.name + "_all";
  const std::vector<std::size_t> small = spread_over(names.size(), most_multiples);
  all.title = fmt::format("{}: {} variables", figure.title,
                          small.size() == names.size() ? fmt::format("all {}", names.size())
                                                       : fmt::format("{} of {}", small.size(), names.size()));
  all.caption = "The same trajectory, truth and models above, absolute error below.";
  all.x_label = figure.x_label;
  all.mark = figure.mark;
  all.multiples = true;
  for (const std::size_t v : small) add_panel(all, v, multiple_points);
  return {std::move(figure), std::move(all)};
}

Figure energy_figure(const Experiment& experiment, const Case& shown) {
  const std::size_t d = experiment.system->resolved_size();
  const auto energy = [&](const Case::Rollout& rollout) {
    Curve curve{rollout.model, rollout.time, std::vector<double>(rollout.time.size())};
    for (std::size_t t = 0; t < curve.y.size(); ++t)
      for (std::size_t v = 0; v < d; ++v)
        curve.y[t] += rollout.resolved[t * d + v] * rollout.resolved[t * d + v];
    return curve;
  };
  std::vector<Curve> models;
  for (const Case::Rollout& rollout : shown.models) models.push_back(energy(rollout));
  Figure figure;
  figure.name = fmt::format("energy_{}", shown.split);
  figure.title = title_of("Resolved energy", shown.split);
  figure.mark = training_end(experiment, shown.split);
  figure.x_label = time_label(experiment.system->time_unit());
  LeftOut left_out;
  figure.panels.push_back(value_and_error("energy", energy(shown.truth), models, single_points, left_out));
  figure.caption = fmt::format("{}: energy Σ|θₖ|² of the resolved Fourier modes, absolute error below.{}",
                               case_words(shown), left_out_words(left_out, 1));
  return figure;
}

std::vector<Figure> series_figures(const Evaluation& evaluation) {
  const Experiment& experiment = evaluation.experiment;
  const bool fourier = experiment.system->fourier_modes() > 0;
  std::vector<Figure> figures;
  const auto add = [&](std::optional<Figure> figure) {
    if (figure) figures.push_back(std::move(*figure));
  };
  for (const std::string split : {"train", "validation", "test", "ood"}) {
    std::vector<std::string> labels;
    std::size_t trajectories = 0;
    for (const ModelMetrics& model : evaluation.models)
      if (const auto found = model.splits.find(split); found != model.splits.end()) {
        trajectories = std::max(trajectories, found->second.trajectories);
        for (const auto& [label, series] : found->second.labelled_physical_l2)
          if (std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
      }
    const auto mark = training_end(experiment, split);
    if (fourier && labels.empty())
      add(series_figure(
          evaluation, split,
          {.name = "l2_error_" + split,
           .title = title_of("Physical-space error", split),
           .caption = "L2 norm over space of the difference to the true resolved field, mean over "
                      "the trajectories.",
           .mark = mark},
          "L² error", true, [](const SplitMetrics& m) { return &m.physical_l2; }));
    for (const std::string& label : labels)
      add(series_figure(
          evaluation, split,
          {.name = "l2_error_" + name_from(label),
           .title = fmt::format("Physical-space error from u₀ = {}, {}", label, split_words(split)),
           .caption = "L2 norm over space of the difference to the true resolved field.",
           .mark = mark},
          "L² error", true, [&](const SplitMetrics& m) -> const Series* {
            const auto found = m.labelled_physical_l2.find(label);
            return found == m.labelled_physical_l2.end() ? nullptr : &found->second;
          }));
    if (fourier) continue;
    add(series_figure(evaluation, split,
                      {.name = "running_l2_" + split,
                       .title = title_of("Running cumulative error", split),
                       .caption = "Relative L2 error up to time t, mean over the trajectories.",
                       .mark = mark},
                      "relative L² error", far_apart(evaluation, split),
                      [](const SplitMetrics& m) { return &m.running_l2; }));
    add(series_figure(evaluation, split,
                      {.name = "running_correlation_" + split,
                       .title = title_of("Running correlation", split),
                       .caption = "Correlation of prediction and truth up to time t as the paper defines it "
                                  "(uncentred), mean over the trajectories.",
                       .mark = mark},
                      "correlation", false, [](const SplitMetrics& m) { return &m.running_correlation; }));
    add(series_figure(
        evaluation, split,
        {.name = "running_centred_correlation_" + split,
         .title = title_of("Running centred correlation", split),
         .caption = "The same about the running means, which a constant prediction does not satisfy.",
         .mark = mark},
        "centred correlation", false, [](const SplitMetrics& m) { return &m.running_centred_correlation; }));
  }
  return figures;
}

}  // namespace mac::report
