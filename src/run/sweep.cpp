#include "run/sweep.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/random.hpp>
#include <mac/verdict.hpp>
#include <map>

#include "base/standard_streams.hpp"
#include "io/atomic_file.hpp"
#include "io/config_edit.hpp"
#include "report/gnuplot.hpp"

namespace mac {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_combinations = 10000;

using Combination = std::vector<std::string>;  // a value for each axis

std::vector<Combination> combinations(const std::vector<SweepAxis>& axes, const SweepOptions& options) {
  std::size_t count = 1;
  for (const SweepAxis& axis : axes) {
    count *= axis.values.size();
    if (count > most_combinations)
      throw UsageError("--over: there are more than {} combinations; take fewer values", most_combinations);
  }
  std::vector<Combination> all;
  for (std::size_t i = 0; i < count; ++i) {
    Combination combination;
    for (std::size_t a = axes.size(), rest = i; a-- > 0; rest /= axes[a].values.size())
      combination.insert(combination.begin(), axes[a].values[rest % axes[a].values.size()]);
    all.push_back(std::move(combination));
  }
  if (options.random == 0 || options.random >= all.size()) return all;
  RandomStream random(options.seed, Purpose::diagnosis, 0);
  for (std::size_t i = 0; i < options.random; ++i) std::swap(all[i], all[i + random.below(all.size() - i)]);
  all.resize(options.random);
  return all;
}

/// "noise=0.01,max_lr=0.004", with what file names should not have as a dash.
std::string folder_name(const std::vector<SweepAxis>& axes, const Combination& values) {
  std::string name;
  for (std::size_t a = 0; a < axes.size(); ++a)
    name += fmt::format("{}{}={}", a > 0 ? "," : "", axes[a].key, values[a]);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) &&
        std::string_view("._=,-+").find(c) == std::string_view::npos)
      c = '-';
  return name;
}

Experiment with_values(const Experiment& experiment, const std::vector<SweepAxis>& axes,
                       const Combination& values) {
  std::string text = experiment.config.text();
  const std::string& file = experiment.config.file();
  for (std::size_t a = 0; a < axes.size(); ++a) text = with_value(text, file, axes[a].key, values[a]);
  return Experiment::parse(text, file);
}

const IntervalMetrics* find_interval(const SplitMetrics& metrics, const std::string& interval) {
  for (const IntervalMetrics& candidate : metrics.intervals)
    if (to_string(candidate.interval) == interval) return &candidate;
  return nullptr;
}

double mean_error(const IntervalMetrics& interval) {
  double sum = 0;
  std::size_t count = 0;
  for (const MeanStd& variable : interval.resolved)
    if (!std::isnan(variable.mean)) sum += variable.mean, ++count;
  return count > 0 ? sum / static_cast<double>(count) : NAN;
}

std::vector<SweepRow> rows_of(const Evaluation& evaluation, const Combination& values) {
  std::vector<SweepRow> rows;
  for (const Verdict& verdict : verdicts(evaluation)) {
    const Comparison& headline = verdict.comparisons.front();
    const auto model = std::ranges::find(evaluation.models, verdict.model, &ModelMetrics::model);
    const IntervalMetrics* interval = find_interval(model->splits.at(headline.split), headline.interval);
    rows.push_back({values, verdict.model, headline.split, headline.interval,
                    interval ? mean_error(*interval) : NAN, headline.better, verdict.warnings.size()});
  }
  return rows;
}

Table table_of(const std::vector<SweepAxis>& axes, const std::vector<SweepRow>& rows) {
  Table table{"Sweep", {}, {}};
  for (const SweepAxis& axis : axes) table.header.push_back(axis.key);
  for (const char* column : {"model", "data", "error", "better than none", "warnings"})
    table.header.push_back(column);
  for (const SweepRow& row : rows) {
    std::vector<std::string> cells = row.values;
    cells.push_back(row.model);
    cells.push_back(row.split + " " + row.interval);
    cells.push_back(std::isnan(row.error) ? "blew up" : fmt::format("{:.3g} %", 100 * row.error));
    cells.push_back(row.better ? fmt::format("{:.3g}", *row.better) : "-");
    cells.push_back(fmt::format("{}", row.warnings));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

/// A curve for each model, by x.
report::Axes axes_of(const SweepAxis& first, bool numbers, const std::vector<const SweepRow*>& rows) {
  std::map<std::string, std::vector<std::pair<double, double>>> points;
  double low = HUGE_VAL, high = 0;
  for (const SweepRow* row : rows) {
    const auto position = std::ranges::find(first.values, row->values[0]) - first.values.begin();
    points[row->model].emplace_back(numbers ? *number_in(row->values[0]) : static_cast<double>(position + 1),
                                    100 * row->error);
    if (row->error > 0) low = std::min(low, row->error), high = std::max(high, row->error);
  }
  report::Axes axes{"relative L2 error, %", high > 10 * low, {}};
  for (auto& [model, curve] : points) {
    std::ranges::sort(curve);
    axes.curves.push_back({model, {}, {}});
    for (const auto& [x, y] : curve) axes.curves.back().x.push_back(x), axes.curves.back().y.push_back(y);
  }
  return axes;
}

/// Errors over the first axis, a panel for each combination of the others; where its values are no numbers, over their
/// positions.
report::Figure figure_of(const std::vector<SweepAxis>& axes, const std::vector<SweepRow>& rows) {
  const SweepAxis& first = axes.front();
  const auto all = [&](auto&& holds) { return std::ranges::all_of(first.values, holds); };
  const bool numbers = all([](const std::string& value) { return number_in(value).has_value(); });
  std::vector<std::pair<std::string, std::vector<const SweepRow*>>> panels;
  for (const SweepRow& row : rows) {
    std::string title;
    for (std::size_t a = 1; a < axes.size(); ++a)
      title += fmt::format("{}{} = {}", a > 1 ? ", " : "", axes[a].key, row.values[a]);
    auto panel = std::ranges::find(panels, title, [](const auto& entry) { return entry.first; });
    if (panel == panels.end()) panel = panels.insert(panels.end(), {title, {}});
    panel->second.push_back(&row);
  }
  report::Figure figure{"sweep", "Sweep", "Errors of the runs"};
  figure.x_label = numbers ? first.key : fmt::format("{}: {}", first.key, fmt::join(first.values, ", "));
  figure.log_x = numbers && first.values.size() > 2 &&
                 all([](const std::string& value) { return *number_in(value) > 0; });
  for (const auto& [title, members] : panels)
    figure.panels.push_back({title, {axes_of(first, numbers, members)}});
  return figure;
}

}  // namespace

SweepAxis sweep_axis(const std::string& text) {
  const auto equals = text.find('=');
  SweepAxis axis{text.substr(0, equals), {}};
  if (equals != std::string::npos) {
    int depth = 0;  // commas inside brackets belong to a value
    std::string value;
    for (const char c : text.substr(equals + 1) + ",") {
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') --depth;
      if (c == ',' && depth == 0) {
        if (!value.empty() && std::ranges::find(axis.values, value) == axis.values.end())
          axis.values.push_back(value);
        value.clear();
      } else {
        value += c;
      }
    }
  }
  if (axis.key.empty() || axis.values.empty())
    throw UsageError("--over {}: expected KEY=VALUE,VALUE,..., as in training.noise=0.01,0.03", text);
  return axis;
}

SweepResult sweep(const Experiment& experiment, const std::vector<SweepAxis>& axes, const std::string& folder,
                  const SweepOptions& options) {
  if (axes.empty()) throw UsageError("--over: there is no setting to vary");
  const std::vector<Combination> all = combinations(axes, options);
  std::vector<Experiment> experiments;  // all of them are read before the first runs
  for (const Combination& values : all) experiments.push_back(with_values(experiment, axes, values));
  make_folder(folder);
  SweepResult result;
  std::map<std::string, std::string> data;  // of [system] and [data], the folder that has them
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = folder_name(axes, all[i]), target = (fs::path(folder) / name).string();
    if (!options.run.quiet) say("run {} of {}: {}\n", i + 1, all.size(), name);
    RunOptions run = options.run;
    const ConfigTable& config = experiments[i].config;
    const auto [shared, is_new] =
        data.try_emplace(config.table("system").canonical() + config.table("data").canonical(), target);
    if (!is_new) run.data_from = shared->second;
    const RunResult one = run_study(experiments[i], target, run);
    result.done += one.done, result.kept += one.kept;
    for (SweepRow& row : rows_of(one.evaluation, all[i])) result.rows.push_back(std::move(row));
  }
  result.table = table_of(axes, result.rows);
  write_file_atomically(fs::path(folder) / "sweep.csv", render(result.table, TableFormat::csv));
  if (!result.rows.empty())
    write_file_atomically(fs::path(folder) / "sweep.svg",
                          report::draw(figure_of(axes, result.rows)).whole_svg);
  return result;
}

}  // namespace mac
