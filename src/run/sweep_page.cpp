#include "run/sweep_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/html.hpp"

namespace mac {

namespace {

constexpr double width = 720, height = 340, top = 40, bottom = 40, side = 70;

struct Scale {
  std::string name;
  std::vector<double> at;  // (rows): 0 at the bottom, 1 at the top; NaN: nowhere
  std::vector<std::pair<double, std::string>> marks = {};  // beside the axis
};

/// A setting's values at equal distances, as they were given.
Scale scale_of(const SweepAxis& axis, std::size_t a, const std::vector<SweepRow>& rows) {
  Scale scale{axis.key, {}};
  const auto place = [&](std::size_t i) {
    return axis.values.size() > 1 ? static_cast<double>(i) / static_cast<double>(axis.values.size() - 1)
                                  : 0.5;
  };
  for (const SweepRow& row : rows)
    scale.at.push_back(
        place(static_cast<std::size_t>(std::ranges::find(axis.values, row.values[a]) - axis.values.begin())));
  for (std::size_t i = 0; i < axis.values.size(); ++i) scale.marks.emplace_back(place(i), axis.values[i]);
  return scale;
}

/// Errors on a logarithmic axis.
Scale scale_of(const char* name, double SweepRow::*error, const std::vector<SweepRow>& rows) {
  Scale scale{name, {}};
  double low = HUGE_VAL, high = 0;
  for (const SweepRow& row : rows)
    if (row.*error > 0 && std::isfinite(row.*error))
      low = std::min(low, row.*error), high = std::max(high, row.*error);
  const double span = high > low ? std::log(high / low) : 1;
  for (const SweepRow& row : rows)
    scale.at.push_back(row.*error > 0 && std::isfinite(row.*error) ? std::log(row.*error / low) / span : NAN);
  if (high > 0)
    scale.marks = {{0, fmt::format("{:.3g} %", 100 * low)}, {1, fmt::format("{:.3g} %", 100 * high)}};
  return scale;
}

Scale scale_of_models(const std::vector<SweepRow>& rows) {
  SweepAxis models{"model", {}};
  for (const SweepRow& row : rows)
    if (std::ranges::find(models.values, row.model) == models.values.end())
      models.values.push_back(row.model);
  std::vector<SweepRow> named = rows;
  for (SweepRow& row : named) row.values = {row.model};
  return scale_of(models, 0, named);
}

}  // namespace

std::string parallel_coordinates(const std::vector<SweepAxis>& axes, const std::vector<SweepRow>& rows) {
  std::vector<Scale> scales;
  for (std::size_t a = 0; a < axes.size(); ++a) scales.push_back(scale_of(axes[a], a, rows));
  scales.push_back(scale_of_models(rows));
  scales.push_back(scale_of("validation error", &SweepRow::validation, rows));
  scales.push_back(scale_of("error", &SweepRow::error, rows));
  const auto x = [&](std::size_t s) {
    return side + (width - 2 * side) * static_cast<double>(s) / static_cast<double>(scales.size() - 1);
  };
  const auto y = [](double at) { return height - bottom - (height - top - bottom) * at; };

  std::string svg = fmt::format(
      R"(<div class="scroll" tabindex="0" role="region" aria-label="All runs"><svg role="img" aria-label="Every run as a line through its settings and errors" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" fill="currentColor" font-family="sans-serif" font-size="11">
)",
      width, height);
  std::vector<std::size_t> order(rows.size());  // the best last, above the others
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const std::vector<double>& validation = scales[scales.size() - 2].at;
  const auto worse = [&](std::size_t i) { return std::isnan(validation[i]) ? 2.0 : validation[i]; };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return worse(a) > worse(b); });
  for (const std::size_t i : order) {
    std::string points;
    for (std::size_t s = 0; s < scales.size(); ++s)
      if (!std::isnan(scales[s].at[i])) points += fmt::format("{:.1f},{:.1f} ", x(s), y(scales[s].at[i]));
    const double dark = 1 - std::min(worse(i), 1.0);
    svg += fmt::format(
        R"svg(<polyline fill="none" stroke="var(--link)" stroke-opacity="{:.2f}" stroke-width="{}" points="{}"/>
)svg",
        0.3 + 0.7 * dark, i == order.back() ? 3 : 1, points);
  }
  for (std::size_t s = 0; s < scales.size(); ++s) {
    const bool first = s == 0;  // a long name of a setting begins at the edge
    svg += fmt::format(
        R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}" stroke="currentColor"/><text x="{3:.1f}" y="{4}" text-anchor="{5}" font-weight="bold">{6}</text>
)",
        x(s), top, height - bottom, first ? 0 : x(s), top - (s % 2 ? 12 : 26), first ? "start" : "middle",
        report::escaped(scales[s].name));
    for (const auto& [at, text] : scales[s].marks)  // legible across the lines
      svg += fmt::format(
          R"svg(<text x="{:.1f}" y="{:.1f}" stroke="var(--page)" stroke-width="3" paint-order="stroke">{}</text>
)svg",
          x(s) + 5, y(at) + 4, report::escaped(text));
  }
  return svg + "</svg></div>\n";
}

std::string sweep_page(const std::vector<SweepAxis>& axes, const SweepResult& result,
                       const std::string& figure) {
  std::string best = "No run has a validation error: the experiment has no validation split.";
  if (result.best) {
    const SweepRow& row = result.rows[*result.best];
    best = fmt::format("Best by validation error ({:.3g} %): {}", 100 * row.validation, row.model);
    for (std::size_t a = 0; a < axes.size(); ++a)
      best += fmt::format(", {} = {}", axes[a].key, row.values[a]);
    best += fmt::format(". Its error on {} {} is {:.3g} %.", row.split, row.interval, 100 * row.error);
  }
  return report::html_page(
      "Sweep", best,
      {{"runs", "All runs",
        parallel_coordinates(axes, result.rows) +
            report::html_note(
                "A line is a model of a run; the stronger, the smaller its validation error. Errors are "
                "on logarithmic scales.")},
       {"table", "Table", report::html_table(result.table)},
       {"figure", "Errors", figure}});
}

}  // namespace mac
