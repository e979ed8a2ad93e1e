// mac sweep: one study, several values of its settings -> a table and a figure
#include "run/sweep.hpp"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"

namespace mac::cli {

namespace {

nlohmann::json to_json(const std::vector<SweepAxis>& axes, const SweepResult& result) {
  nlohmann::json rows = nlohmann::json::array();
  for (const SweepRow& row : result.rows) {
    nlohmann::json entry{{"model", row.model},         {"split", row.split},
                         {"interval", row.interval},   {"error", row.error},
                         {"warnings", row.warnings},   {"values", nlohmann::json::object()},
                         {"better_than_none", nullptr}};
    if (row.better) entry["better_than_none"] = *row.better;
    for (std::size_t a = 0; a < axes.size(); ++a) entry["values"][axes[a].key] = row.values[a];
    rows.push_back(std::move(entry));
  }
  return {{"rows", rows}, {"made", result.done}, {"kept", result.kept}};
}

}  // namespace

void add_sweep(CLI::App& program) {
  struct Options {
    Common common;
    SweepOptions sweep;
    std::string experiment, folder, seeds, device = "cpu";
    std::vector<std::string> over;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("sweep", "Run a study with several values of its settings and compare");
  command->footer(
      "Examples:\n"
      "  mac sweep experiments/burgers.toml --over training.noise=0,0.01,0.03 -o runs/noise\n"
      "  mac sweep study.toml --over training.max_lr=1e-3,4e-3 --over models.mac.d_model=16,32 -o runs/size\n"
      "  mac sweep study.toml --over training.noise=0,0.01,0.03,0.1 --over training.batch=16,32 --random 4 "
      "-o runs/some\n"
      "Each run is as that of mac run, in a folder of its own; what is valid is kept, so that values can be "
      "added.");
  command->add_option("experiment", options->experiment, "Experiment file (TOML)")
      ->required()
      ->type_name("EXPERIMENT");
  command->add_option("--over", options->over, "A key of the experiment and its values; several make a grid")
      ->required()
      ->take_all()
      ->type_name("KEY=A,B,...");
  command->add_option("-o,--output", options->folder, "Folder of the runs")->required()->type_name("DIR");
  command->add_option("--random", options->sweep.random, "Run only so many combinations, drawn at random")
      ->check(CLI::Range(1, 10000))
      ->type_name("N");
  command->add_option("--seed", options->sweep.seed, "Of the draw (default 0)")->type_name("N");
  command->add_option("--seeds", options->seeds, "Train every network with these seeds, 0:5 for 0 to 4")
      ->type_name("A:B");
  command->add_option("--device", options->device, "Where the networks are trained: cpu (default) or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->type_name("DEVICE");
  add_common(*command, options->common, true);
  command->callback([options] {
    const Experiment experiment = Experiment::read(options->experiment);
    std::vector<SweepAxis> axes;
    for (const std::string& text : options->over) axes.push_back(sweep_axis(text));
    if (!options->seeds.empty()) options->sweep.run.seeds = seed_range(options->seeds);
    options->sweep.run.device = device_from(options->device);
    options->sweep.run.threads = options->common.threads;
    options->sweep.run.quiet = options->common.quiet;
    const SweepResult result = sweep(experiment, axes, options->folder, options->sweep);
    if (!options->common.json.empty()) write_json(options->common.json, to_json(axes, result));
    if (options->common.json == "-") return;
    fmt::print("{}\n{} made, {} kept\ntable: {}/sweep.csv, figure: {}/sweep.svg\n",
               render(result.table, TableFormat::text), result.done, result.kept, options->folder,
               options->folder);
  });
}

}  // namespace mac::cli
