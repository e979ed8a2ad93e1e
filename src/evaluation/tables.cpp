#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <mac/evaluation.hpp>
#include <numbers>
#include <sstream>

#include "evaluation/escape.hpp"

namespace mac {

namespace {

/// Four significant digits without exponents: 0.00140, 1.044, 2917.
std::string significant(double value) {
  if (value == 0) return "0";
  if (!std::isfinite(value)) return "-";
  if (std::abs(value) < 1e-4) return fmt::format("{:.1e}", value);
  const int digits = std::clamp(3 - static_cast<int>(std::floor(std::log10(std::abs(value)))), 0, 7);
  return fmt::format("{:.{}f}", value, digits);
}

/// "blew up", or four decimals and in brackets the spread of the seeds.
std::string plain(const MeanStd& value) {
  if (!std::isfinite(value.mean)) return "blew up";
  const double spread = value.seed_std();
  return fmt::format("{:.4f}{}", value.mean, std::isfinite(spread) ? fmt::format(" ({:.4f})", spread) : "");
}

std::string split_title(const std::string& split) {
  if (split == "ood") return "out of distribution";
  return split;
}

/// The metrics over the interval of this name; null if the model has none (its file is of another study).
const IntervalMetrics* find_interval(const SplitMetrics& metrics, const std::string& interval) {
  const auto found = std::ranges::find(metrics.intervals, interval,
                                       [](const IntervalMetrics& m) { return to_string(m.interval); });
  return found == metrics.intervals.end() ? nullptr : &*found;
}

std::string seeds_note(const std::vector<const ModelMetrics*>& models, const std::string& split) {
  const bool pooled = std::ranges::any_of(
      models, [&](const ModelMetrics* m) { return !m->splits.at(split).cumulative_l2.seeds.empty(); });
  return pooled ? " (in brackets: standard deviation between the means of the seeds)" : "";
}

/// A model column, and beside it the paper's column if the paper has one for this table.
struct TableColumn {
  const ModelMetrics* model;
  const SplitMetrics* metrics;
  bool paper;
};

std::vector<const ModelMetrics*> models_with(const Evaluation& evaluation, const std::string& split) {
  std::vector<const ModelMetrics*> models;
  for (const ModelMetrics& model : evaluation.models)
    if (model.splits.contains(split)) models.push_back(&model);
  return models;
}

/// The mean over the variables of their mean errors; NaN where one has none.
double mean_over(const std::vector<MeanStd>& variables) {
  double sum = 0;
  for (const MeanStd& variable : variables) sum += variable.mean;
  return sum / static_cast<double>(variables.size());
}

/// Errors of each variable over one interval, and their mean; quantity is "resolved" or "closure".
Table error_table(const Evaluation& evaluation, const std::string& split, std::size_t k,
                  const std::string& quantity) {
  const System& system = *evaluation.experiment.system;
  const bool resolved = quantity == "resolved";
  const auto& names = resolved ? system.resolved_names() : system.closure_names();
  const auto models = models_with(evaluation, split);
  const SplitMetrics& first = models.front()->splits.at(split);
  const std::string interval = to_string(first.intervals[k].interval);

  Table table;
  table.title = fmt::format(
      "{}, {}, {} {}: relative L2 error in %, mean ± standard deviation over {} trajectories{}",
      system.name(), split_title(split), quantity, interval, first.trajectories, seeds_note(models, split));
  table.of_closures = !resolved;
  table.header = {"variable"};
  std::vector<TableColumn> columns;
  for (const ModelMetrics* model : models) {
    columns.push_back({model, &model->splits.at(split), false});
    table.header.push_back(model->model);
    if (paper_value(evaluation.experiment, model->model, split, quantity, interval, names.front())) {
      columns.push_back({model, nullptr, true});
      table.header.push_back("paper");
    }
  }
  for (std::size_t v = 0; v < names.size(); ++v) {
    std::vector<std::string> row = {names[v]};
    for (const TableColumn& column : columns) {
      if (column.paper) {
        const auto paper =
            paper_value(evaluation.experiment, column.model->model, split, quantity, interval, names[v]);
        row.push_back(paper ? percent(*paper) : "-");
      } else {
        const IntervalMetrics* metrics = find_interval(*column.metrics, interval);
        if (column.metrics->blow_ups.size() == column.metrics->trajectories)
          row.push_back("blew up");
        else
          row.push_back(metrics ? percent(resolved ? metrics->resolved[v] : metrics->closure[v]) : "-");
      }
    }
    table.rows.push_back(std::move(row));
  }
  if (names.size() < 2) return table;
  std::vector<std::string> means = {"mean"};
  for (const TableColumn& column : columns) {
    std::vector<MeanStd> errors;
    if (column.paper) {
      for (const std::string& name : names)
        errors.push_back(
            paper_value(evaluation.experiment, column.model->model, split, quantity, interval, name)
                .value_or(MeanStd{NAN, NAN}));
    } else if (const IntervalMetrics* metrics = find_interval(*column.metrics, interval)) {
      errors = resolved ? metrics->resolved : metrics->closure;
    }
    const bool lost = !column.paper && column.metrics->blow_ups.size() == column.metrics->trajectories;
    means.push_back(lost ? "blew up" : errors.empty() ? "-" : percent({mean_over(errors), NAN}));
  }
  table.rows.push_back(std::move(means));
  return table;
}

Table summary_table(const Evaluation& evaluation, const std::string& split) {
  const System& system = *evaluation.experiment.system;
  Table table;
  table.title = fmt::format("{}, {}: whole trajectories{}", system.name(), split_title(split),
                            seeds_note(models_with(evaluation, split), split));
  const auto models = models_with(evaluation, split);
  const auto paper = [&](const std::string& model, const char* quantity) {
    return paper_value(evaluation.experiment, model, split, quantity, "", "");
  };
  table.header = {"model"};
  for (const ModelMetrics* model : models) table.rows.push_back({model->model});
  // A column of ours, and the paper's beside it where it has numbers.
  const auto add = [&](const char* title, const char* quantity, const MeanStd SplitMetrics::*value) {
    table.header.emplace_back(title);
    for (std::size_t m = 0; m < models.size(); ++m)
      table.rows[m].push_back(plain(models[m]->splits.at(split).*value));
    if (std::ranges::none_of(models,
                             [&](const ModelMetrics* m) { return paper(m->model, quantity).has_value(); }))
      return;
    table.header.emplace_back("paper");
    for (std::size_t m = 0; m < models.size(); ++m) {
      const auto theirs = paper(models[m]->model, quantity);
      table.rows[m].push_back(theirs ? plain(*theirs) : "-");
    }
  };
  add("cumulative L2", "cumulative_l2", &SplitMetrics::cumulative_l2);
  add("correlation", "correlation", &SplitMetrics::correlation);
  add("centred correlation", "", &SplitMetrics::centred_correlation);
  table.header.insert(table.header.end(), {"trajectories", "blow-ups"});
  for (std::size_t m = 0; m < models.size(); ++m) {
    const SplitMetrics& metrics = models[m]->splits.at(split);
    table.rows[m].push_back(fmt::format("{}", metrics.trajectories));
    table.rows[m].push_back(fmt::format("{}", metrics.blow_ups.size()));
  }
  return table;
}

/// Physical-space L2 error of one named trajectory at a few round times.
Table field_table(const Evaluation& evaluation, const std::string& split, const std::string& label) {
  const auto models = models_with(evaluation, split);
  const double end = models.front()->splits.at(split).time.back();
  Table table;
  table.title = fmt::format("{}, {}: physical-space L2 error", evaluation.experiment.system->name(), label);
  table.header = {"t"};
  std::vector<double> shown;
  for (const double t : {0.5, 1.0, 2.0, 5.0, 10.0, 20.0}) {
    if (t > end + 1e-9) break;
    shown.push_back(t);
    table.header.push_back(fmt::format("{:g}", t));
  }
  for (const ModelMetrics* model : models) {
    const SplitMetrics& metrics = model->splits.at(split);
    const auto series = metrics.labelled_physical_l2.find(label);
    std::vector<std::string> row = {model->model};
    for (const double t : shown) {
      const auto at = std::lower_bound(metrics.time.begin(), metrics.time.end(), t - 1e-9);
      if (series == metrics.labelled_physical_l2.end())
        row.push_back("blew up");
      else if (at == metrics.time.end())
        row.push_back("-");
      else
        row.push_back(significant(series->second[static_cast<std::size_t>(at - metrics.time.begin())]));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::size_t width(const std::string& text) {  // code points: the tables hold "±", nothing wider
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t to, bool left) {
  const std::string space(to - std::min(to, width(text)), ' ');
  return left ? text + space : space + text;
}

std::string aligned(const Table& table, const std::string& separator, const std::string& edge) {
  std::vector<std::size_t> widths;
  for (std::size_t j = 0; j < table.header.size(); ++j) {
    std::size_t widest = width(table.header[j]);
    for (const auto& row : table.rows) widest = std::max(widest, width(row[j]));
    widths.push_back(widest);
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = edge;
    for (std::size_t j = 0; j < cells.size(); ++j)
      text += (j > 0 ? separator : "") + padded(cells[j], widths[j], j == 0);
    return text + (edge.empty() ? "" : " |") + "\n";
  };
  std::string text = line(table.header);
  std::vector<std::string> rule;
  for (std::size_t j = 0; j < widths.size(); ++j)
    rule.push_back(std::string(widths[j] - 1, '-') + (edge.empty() || j == 0 ? '-' : ':'));
  text += line(rule);
  for (const auto& row : table.rows) text += line(row);
  return text;
}

/// Every cell and the title through `change`.
template <class Change>
Table changed(Table table, Change&& change) {
  table.title = change(table.title);
  for (std::string& cell : table.header) cell = change(cell);
  for (auto& row : table.rows)
    for (std::string& cell : row) cell = change(cell);
  return table;
}

std::string csv(const Table& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::ostringstream text;
    for (std::size_t j = 0; j < cells.size(); ++j) {
      text << (j > 0 ? "," : "");
      if (cells[j].find_first_of(",\"\n\r") == std::string::npos)
        text << cells[j];
      else
        text << std::quoted(cells[j], '"', '"');  // a quote inside is doubled
    }
    return text.str() + "\n";
  };
  std::string text = "# " + one_line(table.title) + "\n" + line(table.header);
  for (const auto& row : table.rows) text += line(row);
  return text;
}

std::string latex(const Table& table) {
  const auto escape = [](const std::string& quoted) {
    const std::string cell = one_line(quoted);
    std::string text;
    for (std::size_t i = 0; i < cell.size(); ++i) {
      if (cell.compare(i, 2, "±") == 0) {
        text += "$\\pm$";
        ++i;
      } else if (std::string_view("&%$#_{}").find(cell[i]) != std::string_view::npos) {
        text += std::string("\\") + cell[i];
      } else if (cell[i] == '^' || cell[i] == '~') {
        text += fmt::format("\\{}{{}}", cell[i]);
      } else if (cell[i] == '\\') {
        text += "\\textbackslash{}";
      } else {
        text += cell[i];
      }
    }
    return text;
  };
  const auto line = [&](const std::vector<std::string>& cells) {
    std::vector<std::string> escaped;
    escaped.reserve(cells.size());
    for (const std::string& cell : cells) escaped.push_back(escape(cell));
    return fmt::format("  {} \\\\\n", fmt::join(escaped, " & "));
  };
  std::string text = fmt::format(
      "\\begin{{table}}[htbp]\n\\centering\n\\caption{{{}}}\n\\begin{{tabular}}{{l{}}}\n\\hline\n",
      escape(table.title), std::string(table.header.size() - 1, 'r'));
  text += line(table.header) + "\\hline\n";
  for (const auto& row : table.rows) text += line(row);
  return text + "\\hline\n\\end{tabular}\n\\end{table}\n";
}

}  // namespace

std::string percent(const MeanStd& value) {
  if (!std::isfinite(value.mean)) return "-";
  std::string text = significant(100 * value.mean);
  if (std::isfinite(value.std)) text += fmt::format(" ± {}", significant(100 * value.std));
  if (const double spread = value.seed_std(); std::isfinite(spread))
    text += fmt::format(" ({})", significant(100 * spread));
  return text;
}

namespace {

/// ".174 (.013)": a distance and its floor.
std::string distance_text(const Distance& distance) {
  return fmt::format("{} ({})", significant(distance.value), significant(distance.floor));
}

/// "0.8 %, 0.05 %": beyond a quantile and beyond a rarer one, which older files do not have.
std::string shares_text(double share, double rare) {
  const std::string text = fmt::format("{:.2g} %", 100 * share);
  return std::isnan(rare) ? text : text + fmt::format(", {:.2g} %", 100 * rare);
}

Table statistics_table(const Evaluation& evaluation, const std::string& split) {
  const auto models = models_with(evaluation, split);
  Table table{"",
              {"quantity", "model", "mean", "std", "Hellinger", "Wasserstein", "Kullback-Leibler",
               "above 99 %, 99.9 %", "below 1 %, .1 %"},
              {}};
  const Statistics* first = nullptr;
  for (const ModelMetrics* model : models)
    if (const auto& statistics = model->splits.at(split).statistics; statistics && !first)
      first = &*statistics;
  if (!first) return table;
  table.title = fmt::format(
      "Long-run statistics, split {}, from t = {:g} on; in brackets one half of the truth against the other; "
      "Wasserstein in "
      "standard deviations of the truth",
      split, first->from);
  std::vector<std::string> names;  // of all models: some have no closure
  for (const ModelMetrics* model : models)
    if (const auto& statistics = model->splits.at(split).statistics)
      for (const QuantityStatistics& q : statistics->quantities)
        if (std::ranges::find(names, q.name) == names.end()) names.push_back(q.name);
  for (const std::string& name : names) {
    bool truth_shown = false;
    for (const ModelMetrics* model : models) {
      const auto& statistics = model->splits.at(split).statistics;
      if (!statistics) continue;
      const auto q = std::ranges::find(statistics->quantities, name, &QuantityStatistics::name);
      if (q == statistics->quantities.end()) continue;
      if (!truth_shown)
        table.rows.push_back({name, "truth", significant(q->true_mean), significant(q->true_std), "", "", "",
                              "1 %, 0.1 %", "1 %, 0.1 %"});
      truth_shown = true;
      table.rows.push_back({"", model->model, significant(q->mean), significant(q->std),
                            distance_text(q->hellinger), distance_text(q->wasserstein),
                            distance_text(q->kullback_leibler), shares_text(q->above, q->far_above),
                            shares_text(q->below, q->far_below)});
    }
  }
  for (const ModelMetrics* model : models)
    if (const auto& statistics = model->splits.at(split).statistics; statistics && statistics->neighbours)
      table.rows.push_back(
          {"neighbours", model->model, "", "", distance_text(*statistics->neighbours), "", "", "", ""});
  return table;
}

/// Of models whose rollouts have them; the truth's is the same for all.
Table exponent_table(const Evaluation& evaluation, const std::string& split) {
  Table table{
      fmt::format("Largest Lyapunov exponent, split {}, per unit of time, ± standard error over the runs",
                  split),
      {"model", "exponent", "time to double", "runs"},
      {}};
  const auto add = [&](const std::string& name, const std::optional<LyapunovExponent>& of) {
    if (!of) return;
    const std::string error = std::isfinite(of->error) ? fmt::format(" ± {}", significant(of->error)) : "";
    table.rows.push_back({name, significant(of->mean) + error,
                          of->mean > 0 ? significant(std::numbers::ln2 / of->mean) : "-",
                          fmt::format("{}", of->runs)});
  };
  for (const ModelMetrics* model : models_with(evaluation, split)) {
    const auto& statistics = model->splits.at(split).statistics;
    if (!statistics) continue;
    if (table.rows.empty()) add("truth", statistics->true_lyapunov);
    add(model->model, statistics->lyapunov);
  }
  return table;
}

/// Five lead times, each half of the next.
Table verification_table(const Evaluation& evaluation, const std::string& split) {
  Table table{"",
              {"model", "t", "CRPS", "skill over climatology", "over persistence", "error of the mean",
               "spread / error", "lost members", "outside of all members", "spread-error correlation"},
              {}};
  for (const ModelMetrics* model : models_with(evaluation, split)) {
    const auto& of = model->splits.at(split).verification;
    if (!of) continue;
    table.title = fmt::format(
        "Ensemble forecasts, split {}: errors and scores in standard deviations of the truth; beyond all "
        "members lie 2 of (members + 1) truths if the ensemble is right; lost members (blow-ups) count as "
        "far "
        "from the truth as its range allows",
        split);
    for (std::size_t half = 5; half-- > 0;) {
      const std::size_t k = of->at(of->time.back() / static_cast<double>(1u << half));
      const bool whole = half == 4;
      const auto skill = [](double score, double reference) {
        return fmt::format("{:.0f} %", 100 * (1 - score / reference));
      };
      table.rows.push_back(
          {whole ? fmt::format("{}, {} members", model->model, of->members) : "",
           fmt::format("{:g}", of->time[k]), significant(of->crps[k]), skill(of->crps[k], of->climatology[k]),
           skill(of->crps[k], of->persistence[k]), significant(of->error[k]),
           fmt::format("{:.2f}", of->spread[k] / of->error[k]), fmt::format("{:.2g} %", 100 * of->lost[k]),
           whole ? fmt::format("{:.3g} % ({:.3g} %)", 100 * (of->ranks.front() + of->ranks.back()),
                               200 / static_cast<double>(of->members + 1))
                 : "",
           whole ? fmt::format("{:.2f}", of->correlation) : ""});
    }
  }
  return table;
}

}  // namespace

namespace {

/// Errors by the value of a parameter, of one split.
Table parameter_table(const Evaluation& evaluation, const std::string& split,
                      const ParameterMetrics& parameter) {
  const auto models = models_with(evaluation, split);
  Table table;
  table.title = fmt::format(
      "{}, {}: relative L2 error in % by {}{}", evaluation.experiment.system->name(), split_title(split),
      parameter.name,
      parameter.training ? fmt::format(", in the training data {}", to_string(*parameter.training)) : "");
  table.header = {parameter.name, "training range", "trajectories"};
  for (const ModelMetrics* model : models) table.header.push_back(model->model);
  for (std::size_t k = 0; k < parameter.groups.size(); ++k) {
    const ParameterMetrics::Group& first = parameter.groups[k];
    std::vector<std::string> row{fmt::format("{:.4g}", first.value), first.outside ? "outside" : "inside",
                                 fmt::format("{}", first.trajectories)};
    for (const ModelMetrics* model : models) {
      const auto& all = model->splits.at(split).by_parameter;
      const auto own = std::ranges::find(all, parameter.name, &ParameterMetrics::name);
      if (own == all.end() || k >= own->groups.size() || own->groups[k].value != first.value)
        row.push_back("-");
      else if (own->groups[k].blow_ups == own->groups[k].trajectories)
        row.push_back("blew up");
      else
        row.push_back(percent(own->groups[k].error));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::vector<Table> tables(const Evaluation& evaluation) {
  std::vector<Table> result;
  for (const std::string split : {"train", "validation", "test", "ood"}) {
    const auto models = models_with(evaluation, split);
    if (models.empty()) continue;
    const SplitMetrics& first = models.front()->splits.at(split);
    for (const char* quantity : {"resolved", "closure"})
      for (std::size_t k = 0; k < first.intervals.size(); ++k)
        result.push_back(error_table(evaluation, split, k, quantity));
    result.push_back(summary_table(evaluation, split));
    for (const auto& [label, series] : first.labelled_physical_l2)
      result.push_back(field_table(evaluation, split, label));
    if (Table table = verification_table(evaluation, split); !table.rows.empty())
      result.push_back(std::move(table));
    for (const ParameterMetrics& parameter : first.by_parameter)
      result.push_back(parameter_table(evaluation, split, parameter));
  }
  for (const std::string split : {"train", "validation", "test", "ood", statistics_split})
    for (Table table : {statistics_table(evaluation, split), exponent_table(evaluation, split)})
      if (!table.rows.empty()) result.push_back(std::move(table));
  return result;
}

std::string render(const Table& table, TableFormat format) {
  switch (format) {
    case TableFormat::markdown:
      return fmt::format("**{}**\n\n{}", markdown(table.title),
                         aligned(changed(table, markdown), " | ", "| "));
    case TableFormat::csv:
      return csv(table);
    case TableFormat::latex:
      return latex(table);
    case TableFormat::text:
      break;
  }
  return fmt::format("{}\n{}", one_line(table.title), aligned(changed(table, one_line), "   ", ""));
}

}  // namespace mac
