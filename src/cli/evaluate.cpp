// mac evaluate: rollouts and stored metrics -> tables and metrics.json
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <mac/report.hpp>
#include <memory>

#include "base/standard_streams.hpp"
#include "cli/commands.hpp"

namespace mac::cli {

namespace {

const std::map<std::string, TableFormat> formats = {{"text", TableFormat::text},
                                                    {"markdown", TableFormat::markdown},
                                                    {"csv", TableFormat::csv},
                                                    {"latex", TableFormat::latex}};

/// Throws Error, after the table, if a number is outside.
void print_comparison(const Evaluation& evaluation, const std::string& against, TableFormat format,
                      std::FILE* out) {
  const std::vector<ComparedCell> cells = compare(evaluation, read_metrics(against));
  if (cells.empty()) throw UsageError("{}: has no model in common with the files to compare", against);
  Table table{
      fmt::format(
          "{} against {}: mean errors and blow-ups in %, tolerance three standard errors (between seeds, and "
          "over the trajectories of both test sets)",
          evaluation.experiment.system->name(), against),
      {"cell", "here", "stored", "tolerance", "verdict"},
      {}};
  std::size_t outside = 0;
  for (const ComparedCell& cell : cells) {
    const auto mean = [](double value) { return percent({value, std::nan(""), {}}); };
    const bool higher = !(cell.fresh.mean < cell.stored.mean);
    table.rows.push_back(
        {fmt::format("{} {} {} {} {}", cell.model, cell.split, cell.quantity, cell.interval, cell.variable),
         mean(cell.fresh.mean), mean(cell.stored.mean), mean(cell.tolerance),
         cell.within() ? "within"
         : higher      ? "HIGHER"
                       : "LOWER"});
    outside += cell.within() ? 0 : 1;
  }
  fmt::print(out, "{}\n", printable(render(table, format)));
  if (outside > 0)
    throw Error("{} of {} numbers are outside the spread of {}", outside, cells.size(), against);
  fmt::print(out, "{}",
             printable(fmt::format("all {} numbers are within the spread of {}\n", cells.size(), against)));
}

}  // namespace

void add_evaluate(CLI::App& program) {
  struct Options {
    Common common;
    std::vector<std::string> files;
    std::string format = "text", against, figures, data;
    bool statistics = false;
    std::optional<double> from;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("evaluate", "Compare rollouts with the truth, and with the paper");
  command->footer(
      "Examples:\n"
      "  mac evaluate markov.h5 exact.h5 --json metrics.json\n"
      "  mac evaluate mac-seed*.h5 gru-seed*.h5 --format latex\n"
      "  mac evaluate results/burgers.json\n"
      "  mac evaluate mac.h5 markov.h5 --statistics --from 50\n"
      "  mac evaluate runs/zoo/metrics.json --against results/burgers.json\n"
      "Rollouts of one model (several seeds) are pooled.");
  command
      ->add_option("files", options->files,
                   "Rollout files (.h5) and metrics that --json wrote (.json), in any mix")
      ->required()
      ->type_name("FILE...");
  command
      ->add_option(
          "--against", options->against,
          "Say of each number whether it lies within the spread of these stored metrics; exit code 1 "
          "if one does not")
      ->type_name("FILE");
  command->add_option("--data", options->data, "Data file of the rollouts, where it is not where they say")
      ->type_name("FILE");
  command->add_flag("--statistics", options->statistics,
                    "Long-run statistics of every split, not only of the split statistics");
  command
      ->add_option("--from", options->from, "Statistics leave earlier times out (default: the first quarter)")
      ->type_name("T");
  command->add_option("--figures", options->figures, "Draw the errors over time as DIR/NAME.svg")
      ->type_name("DIR");
  command->add_option("--format", options->format, "Tables as text, markdown, csv or latex")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
  add_common(*command, options->common, true);
  command->callback([options] {
    const Evaluation evaluation =
        evaluate_files(options->files, {options->data, nullptr, options->statistics, options->from});
    if (!options->common.json.empty()) write_text(options->common.json, metrics_text(evaluation));
    if (!options->figures.empty()) draw_series(evaluation, options->figures);
    const TableFormat format = formats.at(options->format);
    const bool only_json = options->common.json == "-";
    if (!options->against.empty())
      print_comparison(evaluation, options->against, format, only_json ? stderr : stdout);
    if (!options->against.empty()) return;
    const std::vector<Verdict> judged = verdicts(evaluation);
    if (only_json) {
      print_verdicts(judged, true);
      return;
    }
    for (const Table& table : tables(evaluation)) show("{}\n", render(table, format));
    if (const Table table = paper_comparison(evaluation); !table.rows.empty())
      show("{}\n", render(table, format));
    for (const ModelMetrics& model : evaluation.models)
      for (const auto& [split, metrics] : model.splits)
        for (const BlowUp& blow_up : metrics.blow_ups)
          say("{}: trajectory {} of split {} blew up at t = {:g}; it is in no mean\n", blow_up.file,
              blow_up.trajectory, split, blow_up.time);
    if (format == TableFormat::markdown) print_verdicts_as_list(judged);
    print_verdicts(judged, format != TableFormat::text);
  });
}

}  // namespace mac::cli
