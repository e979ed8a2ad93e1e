#include "report/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mac/verdict.hpp>

#include "base/factor_text.hpp"
#include "report/style.hpp"

namespace mac::report {

namespace {

constexpr const char* split_order[] = {"test", "ood", "validation", "train"};

std::string on_split(std::string_view split) {
  return split == "ood" ? "out of distribution" : fmt::format("on {} data", split);
}

const SplitMetrics* find_split(const Evaluation& evaluation, std::string_view model,
                               const std::string& split) {
  const auto found = std::ranges::find(evaluation.models, model, &ModelMetrics::model);
  if (found == evaluation.models.end()) return nullptr;
  const auto metrics = found->splits.find(split);
  return metrics == found->splits.end() ? nullptr : &metrics->second;
}

const IntervalMetrics* find_interval(const SplitMetrics* metrics, const Interval& interval) {
  if (!metrics || metrics->blow_ups.size() == metrics->trajectories) return nullptr;
  for (const IntervalMetrics& candidate : metrics->intervals)
    if (to_string(candidate.interval) == to_string(interval)) return &candidate;
  return nullptr;
}

/// The splits that some model has, each with its longest interval.
std::vector<std::pair<std::string, Interval>> measured(const Evaluation& evaluation) {
  std::vector<std::pair<std::string, Interval>> result;
  for (const std::string split : split_order)
    for (const ModelMetrics& model : evaluation.models) {
      const auto metrics = model.splits.find(split);
      if (metrics == model.splits.end() || metrics->second.intervals.empty()) continue;
      const auto longest =
          std::ranges::max_element(metrics->second.intervals, {},
                                   [](const IntervalMetrics& m) { return m.interval.to - m.interval.from; });
      result.emplace_back(split, longest->interval);
      break;
    }
  return result;
}

std::string times(double factor) {
  if (std::isinf(factor)) return "∞";
  return factor_text(factor);
}

/// "40 times better than no closure", "1.1 times worse"
std::string gain(double better) {
  if (std::isinf(better)) return "better than no closure, which blows up";
  return better < 1 ? fmt::format("{} times worse than no closure", times(1 / better))
                    : fmt::format("{} times better than no closure", times(better));
}

/// The comparison of a verdict on a split; null if there is none.
const Comparison* comparison_on(const std::vector<Verdict>& all, std::string_view model,
                                const std::string& split) {
  const auto verdict = std::ranges::find(all, model, &Verdict::model);
  if (verdict == all.end()) return nullptr;
  const auto found = std::ranges::find(verdict->comparisons, split, &Comparison::split);
  return found == verdict->comparisons.end() ? nullptr : &*found;
}

/// The one that is furthest above no closure on the first split; null where nothing can be compared.
const Verdict* best_of(const std::vector<Verdict>& all) {
  const Verdict* best = nullptr;
  for (const Verdict& verdict : all)
    if (!verdict.comparisons.empty() && verdict.comparisons.front().better &&
        (!best || *verdict.comparisons.front().better > *best->comparisons.front().better))
      best = &verdict;
  return best;
}

std::string headline(const Verdict& best, std::size_t compared) {
  const Comparison& first = best.comparisons.front();
  const std::string where = fmt::format("{} over {}", on_split(first.split), first.interval);
  if (*first.better < 1)
    return fmt::format("No closure helps here: {}, the best of {}, is {} {}.", best.model, compared,
                       gain(*first.better), where);
  return fmt::format("{}{} is {} {}.", best.model,
                     compared > 1 ? fmt::format(", the best of {} closures,", compared) : "",
                     gain(*first.better), where);
}

}  // namespace

std::string duration(double seconds) {
  if (!(seconds >= 0)) return "-";
  if (seconds < 1) return fmt::format("{:.2g} s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const long minutes = (whole + 30) / 60;
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

Table overview(const Evaluation& evaluation) {
  const std::vector<Verdict> all = verdicts(evaluation);
  Table table{
      "At a glance: mean relative L2 error of the resolved variables in %, and how many times better than no "
      "closure",
      {"model"},
      {}};
  for (const ModelMetrics& model : evaluation.models) table.rows.push_back({model.model});
  for (const auto& [split, interval] : measured(evaluation)) {
    table.header.push_back(fmt::format("{} {}", split, to_string(interval)));
    table.header.emplace_back("times better");
    for (std::size_t m = 0; m < evaluation.models.size(); ++m) {
      const ModelMetrics& model = evaluation.models[m];
      const SplitMetrics* metrics = find_split(evaluation, model.model, split);
      const IntervalMetrics* errors = find_interval(metrics, interval);
      double sum = 0;
      if (errors)
        for (const MeanStd& error : errors->resolved) sum += error.mean;
      table.rows[m].push_back(errors    ? percent({sum / static_cast<double>(errors->resolved.size()), NAN})
                              : metrics ? "blew up"
                                        : "-");
      const Comparison* comparison = comparison_on(all, model.model, split);
      table.rows[m].push_back(model.model == "markov"            ? "1"
                              : comparison && comparison->better ? times(*comparison->better)
                                                                 : "-");
    }
  }
  const auto lost = [](const ModelMetrics& model) {
    std::size_t count = 0;
    for (const auto& [split, metrics] : model.splits) count += metrics.blow_ups.size();
    return count;
  };
  if (std::ranges::all_of(evaluation.models, [&](const ModelMetrics& model) { return lost(model) == 0; }))
    return table;
  table.header.emplace_back("blow-ups");
  for (std::size_t m = 0; m < evaluation.models.size(); ++m)
    table.rows[m].push_back(fmt::format("{}", lost(evaluation.models[m])));
  return table;
}

std::string least_gain(const Evaluation& evaluation, const std::string& model) {
  double least = INFINITY, error = 0;
  std::string where;
  for (const std::string split : split_order) {
    const SplitMetrics* own = find_split(evaluation, model, split);
    const SplitMetrics* none = find_split(evaluation, "markov", split);
    if (!own || !none) continue;
    for (const IntervalMetrics& interval : own->intervals) {
      const IntervalMetrics *mine = find_interval(own, interval.interval),
                            *theirs = find_interval(none, interval.interval);
      if (!mine || !theirs) continue;
      for (std::size_t v = 0; v < mine->resolved.size(); ++v) {
        const double factor = theirs->resolved[v].mean / mine->resolved[v].mean;
        if (!(factor < least)) continue;
        least = factor, error = mine->resolved[v].mean;
        where = fmt::format("{} {} over {}", symbol(evaluation.experiment.system->resolved_names()[v]),
                            on_split(split), to_string(interval.interval));
      }
    }
  }
  if (where.empty()) return {};
  return fmt::format("{} {} in {}: {}, with an error of {} %.", model, least < 1 ? "fails" : "gains least",
                     where, gain(least), percent({error, NAN}));
}

Section verdict_section(const Evaluation& evaluation) {
  Section section{"verdict", "Verdict", {}};
  const std::vector<Verdict> all = verdicts(evaluation);
  if (all.empty()) section.body = html_paragraph("No learned or fitted closure is compared.");
  if (const Verdict* best = best_of(all)) {
    section.body += html_headline(headline(*best, all.size()), *best->comparisons.front().better >= 1);
    if (const std::string weak = least_gain(evaluation, best->model); !weak.empty())
      section.body += html_paragraph(weak);
  }
  if (Table table = overview(evaluation); table.header.size() > 2) section.body += html_table(table);
  for (const Verdict& verdict : all) {
    section.body += html_paragraph(verdict.sentence + ".");
    for (const std::string& warning : verdict.warnings) section.body += html_warning(warning + ".");
  }
  section.body += html_note(std::string(verdict_measure()) + ".");
  return section;
}

}  // namespace mac::report
