#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/figures.hpp"
#include "report/style.hpp"

namespace mac::report {

namespace {

constexpr std::size_t least_sites = 4, most_sites = 256, most_times = 240;
constexpr double colour_share =
    0.995;  // of the numbers lie within the range of colours: outliers do not fade the rest

/// Values of the field at some sites and times, sites as rows.
HeatMap field_of(const Case::Rollout& rollout, const Lattice& lattice, std::size_t d) {
  HeatMap map;
  const std::size_t times = rollout.time.size(), every_time = (times + most_times - 1) / most_times,
                    every_site = (lattice.sites() + most_sites - 1) / most_sites;
  for (std::size_t t = 0; t < times; t += every_time) map.x.push_back(rollout.time[t]);
  for (std::size_t s = 0; s < lattice.sites(); s += every_site) {
    map.y.push_back(static_cast<double>(s + 1));
    for (std::size_t t = 0; t < times; t += every_time)
      map.values.push_back(rollout.resolved[t * d + lattice.variables[s]]);
  }
  return map;
}

/// a - b; NaN where one of them has ended.
HeatMap difference(HeatMap a, const HeatMap& b) {
  const std::size_t n = a.x.size(), m = b.x.size();
  for (std::size_t k = 0; k < a.values.size(); ++k)
    a.values[k] =
        k % n < m ? a.values[k] - b.values[k / n * m + k % n] : std::numeric_limits<double>::quiet_NaN();
  return a;
}

AxisRange colours_of(const HeatMap& map, bool around_zero) {
  std::vector<double> values;
  for (const double value : map.values)
    if (std::isfinite(value)) values.push_back(value);
  if (values.empty()) return {-1, 1};
  std::ranges::sort(values);
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  AxisRange range{at(1 - colour_share), at(colour_share)};
  if (around_zero) range = {-std::max(std::abs(range.low), std::abs(range.high)), 0}, range.high = -range.low;
  if (!(range.low < range.high)) range = {range.low - 1, range.high + 1};
  return range;
}

Panel panel_of(std::string title, HeatMap map, const Lattice& lattice) {
  Axes axes{"site of " + symbol(lattice.name), false, {}};
  axes.y_range = AxisRange{0.5, static_cast<double>(lattice.sites()) + 0.5};
  title += fmt::format(", {:.2g} … {:.2g}", map.colours.low, map.colours.high);
  axes.map = std::move(map);
  return {std::move(title), {std::move(axes)}};
}

}  // namespace

std::optional<Figure> space_time_figure(const Experiment& experiment, const Case& shown) {
  const System& system = *experiment.system;
  const std::vector<Lattice> lattices = system.lattices();
  const auto lattice = std::ranges::find_if(
      lattices, [](const Lattice& one) { return one.extents.size() == 1 && one.sites() >= least_sites; });
  if (lattice == lattices.end()) return std::nullopt;
  const std::size_t d = system.resolved_size();
  Figure figure;
  figure.name = "space_time_" + shown.split;
  figure.title = fmt::format("{} in space and time, {} trajectory {}", symbol(lattice->name), shown.split,
                             shown.trajectory + 1);
  figure.caption =
      "The field along a representative trajectory: the truth, what each model makes of it, and the "
      "difference of the "
      "two. Colours go from blue over white to red, from and to the numbers above each panel; those of the "
      "models are "
      "the truth's.";
  figure.x_label = time_label(system.time_unit());
  HeatMap truth = field_of(shown.truth, *lattice, d);
  truth.colours = colours_of(truth, false);
  figure.panels.push_back(panel_of("truth", truth, *lattice));
  for (const Case::Rollout& model : shown.models) {
    HeatMap field = field_of(model, *lattice, d);
    field.colours = truth.colours;
    HeatMap error = difference(field, truth);
    error.colours = colours_of(error, true);
    figure.panels.push_back(panel_of(model.model, std::move(field), *lattice));
    figure.panels.push_back(panel_of(model.model + " − truth", std::move(error), *lattice));
  }
  return figure;
}

}  // namespace mac::report
