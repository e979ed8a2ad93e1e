// The card of a trained network, from its own metadata and its stored metrics.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/report.hpp>
#include <mac/system_parameters.hpp>
#include <mac/verdict.hpp>

#include "evaluation/escape.hpp"
#include "network/kinds/layer.hpp"
#include "report/search_table.hpp"

namespace mac {

namespace {

namespace fs = std::filesystem;

std::string value_of(const Model& model, const std::string& key, const std::string& fallback) {
  const auto found = model.provenance.find(key);
  return found == model.provenance.end() ? fallback : found->second;
}

std::string row(std::string_view what, const std::string& value) {
  return fmt::format("| {} | {} |\n", what, value);
}

std::string names(const std::vector<std::string>& all) {
  return markdown(fmt::format("{}", fmt::join(all, " ")));
}

std::string network_section(const Model& model) {
  const NetworkShape& shape = model.shape;
  std::string text = "| | |\n|---|---|\n";
  text += row("Closure of", fmt::format("`{}`: {} → {}", markdown(model.system), names(model.input_names),
                                        names(model.output_names)));
  text += row("Network", fmt::format("{}{}, {} blocks of {} channels{}, {} parameters",
                                     shape.members > 1 ? fmt::format("{} × ", shape.members) : "",
                                     to_string(shape.kind), shape.n_blocks, shape.d_model,
                                     layer_of(shape.kind).card_text(shape), model.parameters.size()));
  if (const std::string parameters = to_text(trained_parameters(model)); !parameters.empty())
    text += row("Parameters", markdown(parameters));
  text += row("Memory", fmt::format("{} numbers a trajectory", shape.state_size()));
  if (model.inputs.frame == Frame::initial)
    text += row("Frame", "Fourier modes turned back by the phase of the first state");
  if (model.closure_step) text += row("Closure step", fmt::format("{:g}", *model.closure_step));
  if (model.held)
    text += row("Coupling", fmt::format("hold {}, target {}", to_string(model.held->hold),
                                        to_string(model.held->target)));
  text += row("Written by", markdown(model.program));
  return text;
}

/// Whether to trust it: what the metrics say; where they compare with nothing, what the search warned of.
std::string verdict_section(const Model& model, const Evaluation& evaluation, const std::string& name) {
  const std::vector<Verdict> all = verdicts(evaluation);
  const auto own = std::ranges::find(all, name, &Verdict::model);
  std::string text;
  if (own != all.end()) {
    text += fmt::format("{}.\n\n", markdown(own->sentence));
    for (const std::string& warning : own->warnings)
      text += fmt::format("**Warning:** {}.\n\n", markdown(warning));
  }
  const bool compared = own != all.end() && !own->comparisons.empty() && own->comparisons.front().better;
  if (const auto search = report::search_of(model); search && !search->warning.empty() && !compared)
    text += fmt::format("**Warning:** {}.\n\n", markdown(search->warning));
  return text.empty() ? text : "## Verdict\n\n" + text;
}

/// The training data, as the model remembers the experiment they were made from.
std::string data_section(const Experiment& data) {
  std::string text = fmt::format("## Data\n\nSimulated with solver step {:g}, saved every {:g}, seed {}:\n\n",
                                 data.data.dt, data.data.closure_step(), data.data.seed);
  for (const SplitPlan& split : data.data.splits)
    if (split.name == "train" || split.name == "validation")
      text += fmt::format("- {}: {} {} to t = {:g}\n", split.name, split.trajectories,
                          split.trajectories == 1 ? "trajectory" : "trajectories", split.horizon);
  return text + "\n";
}

std::string recipe_section(const Model& model) {
  const std::string networks = value_of(model, "ensemble_of", "");
  std::string text = fmt::format(
      "## Recipe\n\n`{}`, {} steps, {}", markdown(model.recipe), markdown(value_of(model, "steps", "?")),
      networks.empty() ? "seed " + markdown(value_of(model, "seed", "?"))
                       : fmt::format("networks of {} seeds whose closures are averaged: {}",
                                     model.shape.members, markdown(networks)));
  if (const std::string best = value_of(model, "best_step", ""); !best.empty())
    text += fmt::format("; the weights of step {}, chosen on validation data", markdown(best));
  text += ".\n\n";
  if (const auto search = report::search_of(model)) {
    text += render(report::search_table(*search), TableFormat::markdown) + "\n";
    for (const std::string& note : search->notes) text += fmt::format("- {}.\n", markdown(note));
    text += fmt::format("- {}.\n\n", markdown(search->reason));
  }
  if (const std::string plan = value_of(model, "training", ""); !plan.empty())
    text += fmt::format("<details><summary>Every setting</summary>\n\n{}\n</details>\n\n",
                        markdown_code(plan, "toml"));
  return text;
}

/// The place of the model's own seed among the pooled files, NAME-seedN.h5; none for a single file.
std::optional<std::size_t> own_seed(const Model& model, const ModelMetrics& metrics) {
  const std::string ending = "-seed" + value_of(model, "seed", "?");
  for (std::size_t i = 0; i < metrics.files.size(); ++i)
    if (metrics.files.size() > 1 && fs::path(metrics.files[i]).stem().string().ends_with(ending)) return i;
  return std::nullopt;
}

/// One table a split and interval: this seed, all seeds, the paper.
class ErrorTables {
 public:
  ErrorTables(const Model& model, const Evaluation& evaluation, const ModelMetrics& metrics)
      : evaluation_(evaluation), metrics_(metrics), seed_(own_seed(model, metrics)) {}

  std::string text() const {
    std::string text;
    for (const std::string split : {"test", "ood"}) {
      const auto found = metrics_.splits.find(split);
      if (found == metrics_.splits.end()) continue;
      const SplitMetrics& metrics = found->second;
      for (const IntervalMetrics& interval : metrics.intervals) text += errors(split, metrics, interval);
      if (seed_)
        text += fmt::format(
            "Cumulative relative L2 error {:.4f}; all seeds {:.4f}, with a correlation of {:.4f}",
            metrics.cumulative_l2.seeds.at(*seed_), metrics.cumulative_l2.mean, metrics.correlation.mean);
      else
        text += fmt::format("Cumulative relative L2 error {:.4f}, correlation {:.4f}",
                            metrics.cumulative_l2.mean, metrics.correlation.mean);
      text += metrics.blow_ups.empty() ? ".\n\n"
                                       : fmt::format("; {} of {} rollouts blew up.\n\n",
                                                     metrics.blow_ups.size(), metrics.trajectories);
    }
    return text;
  }

 private:
  std::string errors(const std::string& split, const SplitMetrics& metrics,
                     const IntervalMetrics& interval) const {
    const System& system = *evaluation_.experiment.system;
    const std::string name = to_string(interval.interval);
    const std::size_t seeds = std::max<std::size_t>(1, metrics.cumulative_l2.seeds.size());
    Table table{fmt::format("{} {}: relative L2 error in %, {} trajectories{}",
                            split == "ood" ? "Out of distribution" : "Test", name,
                            metrics.trajectories / seeds, seeds > 1 ? fmt::format(", {} seeds", seeds) : ""),
                {"variable"},
                {}};
    if (seed_) table.header.push_back("this model");
    table.header.push_back(seeds > 1 ? "all seeds" : "this model");
    table.header.push_back("paper");
    for (std::size_t v = 0; v < system.resolved_names().size(); ++v) {
      const std::string& variable = system.resolved_names()[v];
      const MeanStd& cell = interval.resolved[v];
      std::vector<std::string> cells{variable};
      if (seed_)
        cells.push_back(*seed_ < cell.seeds.size() ? percent({cell.seeds[*seed_], std::nan(""), {}}) : "-");
      cells.push_back(percent(cell));
      const auto paper =
          paper_value(evaluation_.experiment, metrics_.model, split, "resolved", name, variable);
      cells.push_back(paper ? percent(*paper) : "-");
      table.rows.push_back(std::move(cells));
    }
    return render(table, TableFormat::markdown) + "\n";
  }

  const Evaluation& evaluation_;
  const ModelMetrics& metrics_;
  std::optional<std::size_t> seed_;
};

/// What the spread of the runs says of their error, of every model of the metrics that has members.
std::string spread_section(const Evaluation& evaluation) {
  std::string text;
  for (const ModelMetrics& model : evaluation.models)
    for (const char* split : {"test", "ood"}) {
      const auto found = model.splits.find(split);
      if (found == model.splits.end() || !found->second.verification) continue;
      const Verification& of = *found->second.verification;
      text += fmt::format("| {} | {} | {} | {:.2f} | {:.2f} |\n", markdown(model.model), split, of.members,
                          of.correlation, of.spread_error_ratio(of.time.back()));
    }
  if (text.empty()) return text;
  return "**Spread of the members and error of their mean**\n\n"
         "| model | data | members | correlation | spread / error |\n|---|---|---|---|---|\n" +
         text + "\n";
}

std::string limits_section(const Model& model, const std::optional<Experiment>& data) {
  std::string text = "## Limits\n\n";
  if (model.closure_step)
    text += fmt::format(
        "- One step of the network is {:g} of time: it knows no other step, and its memory counts steps.\n",
        *model.closure_step);
  if (data) {
    const auto& splits = data->data.splits;
    const auto train = std::ranges::find(splits, "train", &SplitPlan::name);
    if (train != splits.end())
      text += fmt::format(
          "- Trained on times up to {:g} from the initial states of [data.train]; anything later or "
          "elsewhere is extrapolation, whose errors are those above.\n",
          train->horizon);
  }
  text +=
      "- For the parameters of the system above only: they are not inputs of the network.\n"
      "- The first step of a rollout has no past; the network was trained to begin that way.\n\n";
  return text;
}

}  // namespace

std::string model_card(const Model& model, const std::string& file, const Evaluation& evaluation) {
  const std::string name = value_of(model, "name", fs::path(file).stem().string());
  const auto metrics = std::ranges::find(evaluation.models, name, &ModelMetrics::model);
  if (metrics == evaluation.models.end())
    throw UsageError("{}: the metrics hold no model named {}", file, name);
  if (model.system != evaluation.experiment.system->name())
    throw UsageError("{}: is a closure for {}, but the metrics are about {}", file, model.system,
                     evaluation.experiment.system->name());
  std::optional<Experiment> data;
  if (const std::string text = value_of(model, "data_experiment", ""); !text.empty())
    data = Experiment::parse(text, file + " (data_experiment)", describe(*evaluation.experiment.system));

  const std::string stem = fs::path(file).stem().string();
  std::string text =
      fmt::format("# {}\n\n<!-- Written by `make results`; edit the model or the metrics instead. -->\n\n",
                  markdown(stem));
  text += network_section(model) + "\n";
  text += verdict_section(model, evaluation, name);
  if (data) text += data_section(*data);
  text += recipe_section(model);
  text +=
      "## Errors\n\nFree rollouts on data the training has not seen, mean ± standard deviation over "
      "trajectories; in brackets the standard deviation between seeds.\n\n";
  text += ErrorTables(model, evaluation, *metrics).text();
  if (model.shape.members > 1 || model.noise.channels > 0) text += spread_section(evaluation);
  text += limits_section(model, data);
  text += fmt::format(
      "## Use\n\n    mac rollout zoo/{} --data data.h5 -o rollout.h5\n\n"
      "or by `file` in an experiment's `[[models]]`, as in `experiments/zoo/`.\n",
      file);
  return text;
}

}  // namespace mac
