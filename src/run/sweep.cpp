#include "run/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <mac/random.hpp>
#include <mac/verdict.hpp>
#include <map>

#include "base/standard_streams.hpp"
#include "io/atomic_file.hpp"
#include "io/config_edit.hpp"
#include "parallel/ranks_in_order.hpp"
#include "report/gnuplot.hpp"
#include "run/sweep_page.hpp"

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
                    interval ? mean_error(*interval) : NAN,
                    model->validation ? model->validation->validation_error : NAN, headline.better,
                    verdict.warnings.size()});
  }
  return rows;
}

Table table_of(const std::vector<SweepAxis>& axes, const std::vector<SweepRow>& rows) {
  Table table{"Sweep", {}, {}};
  for (const SweepAxis& axis : axes) table.header.push_back(axis.key);
  for (const char* column : {"model", "data", "error", "better than none", "warnings", "validation error"})
    table.header.push_back(column);
  for (const SweepRow& row : rows) {
    std::vector<std::string> cells = row.values;
    cells.push_back(row.model);
    cells.push_back(row.split + " " + row.interval);
    cells.push_back(std::isnan(row.error) ? "blew up" : fmt::format("{:.3g} %", 100 * row.error));
    cells.push_back(row.better ? fmt::format("{:.3g}", *row.better) : "-");
    cells.push_back(fmt::format("{}", row.warnings));
    cells.push_back(std::isfinite(row.validation) ? fmt::format("{:.3g} %", 100 * row.validation) : "-");
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

/// Positive numbers, the largest at least ten times the smallest.
bool spans_a_decade(const std::vector<std::string>& values) {
  double low = HUGE_VAL, high = 0;
  for (const std::string& value : values)
    low = std::min(low, *number_in(value)), high = std::max(high, *number_in(value));
  return low > 0 && high >= 10 * low;
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
  report::Figure figure{"sweep", "Errors over " + first.key, "Relative L2 error of every run."};
  figure.x_label = numbers ? first.key : fmt::format("{}: {}", first.key, fmt::join(first.values, ", "));
  figure.log_x = numbers && spans_a_decade(first.values);
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
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  if (axis.key.empty() || axis.values.empty() || std::ranges::any_of(text, is_control))
    throw UsageError("--over {}: expected KEY=VALUE,VALUE,..., as in training.noise=0.01,0.03", text);
  return axis;
}

std::size_t sweep_points(const std::vector<SweepAxis>& axes, const SweepOptions& options) {
  return combinations(axes, options).size();
}

namespace {

/// The runs of a sweep: where they lie, and whose data they take.
class Points {
 public:
  Points(const Experiment& experiment, const std::vector<SweepAxis>& axes, const std::string& folder,
         const SweepOptions& options)
      : options_(options), all_(combinations(axes, options)) {
    std::map<std::string, std::string> data;  // of [system] and [data], the folder that has them
    for (const Combination& values : all_) {  // all of them are read before the first runs
      experiments_.push_back(with_values(experiment, axes, values));
      const std::string name = folder_name(axes, values);
      if (const auto other = std::ranges::find(names_, name); other != names_.end())
        throw UsageError(
            "--over: {} and {} would have the same folder {}: names of files have no place for "
            "what makes them different",
            fmt::join(all_[static_cast<std::size_t>(other - names_.begin())], ", "), fmt::join(values, ", "),
            name);
      names_.push_back(name);
      folders_.push_back((fs::path(folder) / names_.back()).string());
      const ConfigTable& config = experiments_.back().config;
      const auto [shared, is_new] = data.try_emplace(
          config.table("system").canonical() + config.table("data").canonical(), folders_.back());
      data_from_.push_back(is_new ? "" : shared->second);
    }
  }

  std::size_t size() const { return all_.size(); }
  const std::string& name(std::size_t i) const { return names_[i]; }

  RunResult run(std::size_t i, bool only_data) const {
    RunOptions run = options_.run;
    run.data_from = data_from_[i];
    run.only_data = only_data;
    return run_study(experiments_[i], folders_[i], run);
  }

  /// Those whose data others take, or nobody.
  void make_data() const {
    for (std::size_t i = 0; i < size(); ++i)
      if (data_from_[i].empty()) run(i, true);
  }

  /// Of a run that is done.
  std::vector<SweepRow> rows(std::size_t i) const {
    Evaluation evaluation = read_metrics((fs::path(folders_[i]) / "metrics.json").string());
    evaluation.experiment = experiments_[i];
    return rows_of(evaluation, all_[i]);
  }

 private:
  const SweepOptions& options_;
  std::vector<Combination> all_;
  std::vector<Experiment> experiments_;
  std::vector<std::string> names_, folders_, data_from_;
};

/// Each rank takes a run when it is free; the data that runs share are made before, by all together.
void run_as_tasks(const Points& points, bool quiet, SweepResult& result) {
  points.make_data();
  bytes_in_order(
      points.size(), 1, Supply::one_by_one,
      [&](std::size_t, std::size_t i) {
        const RunResult one = points.run(i, false);
        std::vector<double> counts{static_cast<double>(one.done), static_cast<double>(one.kept)};
        return packed(std::array{&counts});
      },
      [&](std::size_t i, const Bytes& bytes) {
        std::vector<double> counts;
        unpack(bytes, std::array{&counts});
        result.done += static_cast<std::size_t>(counts[0]),
            result.kept += static_cast<std::size_t>(counts[1]);
        if (!quiet) say("run {} of {} is done: {}\n", i + 1, points.size(), points.name(i));
      });
}

/// Which of them are done.
std::vector<char> run_one_by_one(const Points& points, bool quiet, SweepResult& result) {
  std::vector<char> done(points.size(), 1);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!quiet) say("run {} of {}: {}\n", i + 1, points.size(), points.name(i));
    try {
      const RunResult one = points.run(i, false);
      result.done += one.done, result.kept += one.kept;
    } catch (const Interrupted&) {
      throw;
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      if (ranks().size() > 1) throw;  // the others may wait for this one
      done[i] = 0;
      result.failures.push_back(fmt::format("{}: {}", points.name(i), error.what()));
    }
  }
  if (result.failures.size() == points.size()) throw Error("{}", result.failures.front());
  return done;
}

void write_tables(const std::vector<SweepAxis>& axes, const fs::path& folder, const SweepResult& result) {
  write_file_atomically(folder / "sweep.csv", render(result.table, TableFormat::csv));
  if (result.rows.empty()) return;
  const report::Figure figure = figure_of(axes, result.rows);
  const report::DrawnFigure drawn = report::draw(figure);
  write_file_atomically(folder / "sweep.svg", drawn.whole_svg);
  write_file_atomically(folder / "sweep.html",
                        sweep_page(axes, result, report::html_figure(figure, drawn, "sweep.svg")));
}

}  // namespace

SweepResult sweep(const Experiment& experiment, const std::vector<SweepAxis>& axes, const std::string& folder,
                  const SweepOptions& options) {
  if (axes.empty()) throw UsageError("--over: there is no setting to vary");
  for (const SweepAxis& axis : axes)
    if (std::ranges::count(axes, axis.key, &SweepAxis::key) > 1)
      throw UsageError("--over {}: is there twice; give all values in one", axis.key);
  const Points points(experiment, axes, folder, options);
  if (options.point && *options.point >= points.size())
    throw UsageError("--point {}: there are {} combinations, from 0 on", *options.point, points.size());
  on_root([&] { make_folder(folder); });
  SweepResult result;
  if (options.only_data) {
    points.make_data();
    return result;
  }
  if (options.point) {
    const RunResult one = points.run(*options.point, false);
    result.done = one.done, result.kept = one.kept;
    return result;
  }
  std::vector<char> done(points.size(), 1);
  if (ranks().size() > 1 && points.size() >= ranks().size())
    run_as_tasks(points, options.run.quiet, result);
  else
    done = run_one_by_one(points, options.run.quiet, result);
  on_root([&] {
    for (std::size_t i = 0; i < points.size(); ++i)
      if (done[i])
        for (SweepRow& row : points.rows(i)) result.rows.push_back(std::move(row));
    for (std::size_t i = 0; i < result.rows.size(); ++i)
      if (std::isfinite(result.rows[i].validation) &&
          (!result.best || result.rows[i].validation < result.rows[*result.best].validation))
        result.best = i;
    result.table = table_of(axes, result.rows);
    write_tables(axes, folder, result);
  });
  return result;
}

namespace {

/// As a word of any shell: sbatch --wrap hands the job to sh, which knows less than bash.
std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace

std::string slurm_script(const std::vector<std::string>& command, std::size_t points) {
  std::string words;
  for (const std::string& word : command) words += (words.empty() ? "" : " ") + shell_word(word);
  return fmt::format(
      R"(#!/usr/bin/env bash
# A sweep of {0} runs as a Slurm job array: the data that runs share, the runs, the table. `bash sweep.sh` submits it;
# what is done is kept, so it can be submitted again. Options for all jobs: SBATCH_PARTITION, SBATCH_ACCOUNT, ... or, as
# arguments, `bash sweep.sh --time=2:00:00 --cpus-per-task=8`. At most 32 runs at once: MAC_AT_ONCE=64 bash sweep.sh
set -euo pipefail
submit() {{ sbatch --parsable --ntasks=1 "$@"; }}
run={1}

data=$(submit --job-name=mac-data "$@" --wrap="$run --only-data")
points=$(submit --job-name=mac-sweep --dependency=afterok:$data --array=0-{2}%${{MAC_AT_ONCE:-32}} "$@" --wrap="$run --point \$SLURM_ARRAY_TASK_ID")
submit --job-name=mac-table --dependency=afterany:$points "$@" --wrap="$run"
)",
      points, shell_word(words), points - 1);
}

}  // namespace mac
