// mac run: experiment.toml -> a folder with everything
#include <fmt/format.h>

#include <chrono>
#include <mac/progress.hpp>
#include <mac/run.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "parallel/ranks.hpp"

namespace mac::cli {

void add_run(CLI::App& program) {
  struct Options {
    Common common;
    RunOptions run;
    std::string experiment, folder, seeds, device = "cpu";
    bool no_report = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("run", "Do a whole study: data, training, rollouts, tables, report");
  command->footer(
      "Examples:\n"
      "  mac run experiments/burgers.toml -o runs/burgers\n"
      "  mac run experiments/burgers.toml -o runs/burgers --seeds 0:5\n"
      "  mac run experiments/paper/burgers.toml -o runs/paper --seeds 0:5 --device cuda\n"
      "What is there and was made from the same inputs is kept; a killed run goes on.");
  command->add_option("experiment", options->experiment, "Experiment file (TOML)")
      ->required()
      ->type_name("EXPERIMENT");
  command->add_option("-o,--output", options->folder, "Folder of the study")->required()->type_name("DIR");
  command->add_option("--seeds", options->seeds, "Train every network with these seeds, 0:5 for 0 to 4")
      ->type_name("A:B");
  command
      ->add_option("--device", options->device,
                   "Where the networks are trained: cpu (default) or cuda, all seeds at once")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->type_name("DEVICE");
  command
      ->add_option("--force", options->run.force,
                   "Do this stage again: generate, train, rollout, evaluate, report")
      ->check(CLI::IsMember(run_stages()))
      ->type_name("STAGE");
  command->add_flag("--allow-other-parameters", options->run.allow_other_parameters,
                    "Take trained models of other parameters of the system, with a warning");
  command->add_flag("--no-report", options->no_report,
                    "Without report.html, where there is no gnuplot; `mac report DIR` draws it later");
  add_common(*command, options->common, true);
  command->callback([options] {
    const Experiment experiment = Experiment::read(options->experiment);
    if (!options->seeds.empty()) options->run.seeds = seed_range(options->seeds);
    options->run.device = device_from(options->device);
    options->run.threads = options->common.threads;
    options->run.report = !options->no_report;
    options->run.quiet = options->common.quiet;
    options->run.portable = options->common.portable;
    const auto began = std::chrono::steady_clock::now();
    const RunResult result = run_study(experiment, options->folder, options->run);
    if (!ranks().root()) return;
    if (!options->common.json.empty()) write_text(options->common.json, metrics_text(result.evaluation));
    const std::vector<Verdict> judged = verdicts(result.evaluation);
    if (options->common.json == "-") {
      print_verdicts(judged, true);
      return;
    }
    for (const Table& table : tables(result.evaluation))
      if (!table.of_closures) show("{}\n", render(table, TableFormat::text));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
    show("{} made, {} kept, in {}\n", result.done, result.kept, human_duration(taken.count()));
    if (!result.report.empty()) show("report: {}\n", result.report);
    print_verdicts(judged);
  });
}

}  // namespace mac::cli
