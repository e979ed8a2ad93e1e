// mac report: a run -> report.html
#include <fmt/format.h>

#include <mac/error.hpp>
#include <mac/report.hpp>
#include <memory>

#include "cli/commands.hpp"

namespace mac::cli {

void add_report(CLI::App& program) {
  struct Options {
    Common common;
    std::string run, output, data;
    std::vector<std::string> rollouts;
    bool times = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("report", "Show a run as one page of tables and figures");
  command->footer(
      "Examples:\n"
      "  mac report runs/burgers -o report.html\n"
      "  mac report runs/burgers --times -o times.html\n"
      "  mac report --rollouts mac.h5 markov.h5 exact.h5 -o report.html\n"
      "Beside report.html, which needs nothing else to be read, report_files/ holds the figures as PDF.");
  auto* run = command->add_option("run", options->run, "Folder that mac run wrote")->type_name("RUN");
  command->add_option("--rollouts", options->rollouts, "Rollout files instead of a run")
      ->excludes(run)
      ->type_name("FILE...");
  command->add_option("--data", options->data, "Data file of the rollouts, where it is not where they say")
      ->excludes(run)
      ->type_name("FILE");
  command->add_option("-o,--output", options->output, "Page to write (HTML)")->required()->type_name("FILE");
  command->add_flag(
      "--times", options->times,
      "Show wall times as well, of stages, iterations and steps; without them a run that is made again has "
      "the same page");
  add_common(*command, options->common, false);
  command->callback([options] {
    if (options->run.empty() == options->rollouts.empty())
      throw UsageError("mac report needs a run folder, or --rollouts with rollout files");
    const ReportOptions report{options->common.threads, options->common.quiet, options->data, options->times};
    const Evaluation evaluation = options->run.empty()
                                      ? report_rollouts(options->rollouts, options->output, report)
                                      : report_run(options->run, options->output, report);
    if (!options->common.quiet) show("{}\n", options->output);
    print_verdicts(verdicts(evaluation));
  });
}

}  // namespace mac::cli
