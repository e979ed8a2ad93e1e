// mac sweep: one study, several values of its settings -> a table and a figure
#include "run/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/standard_streams.hpp"
#include "cli/commands.hpp"
#include "io/atomic_file.hpp"
#include "parallel/ranks.hpp"

namespace mac::cli {

namespace {

nlohmann::json to_json(const std::vector<SweepAxis>& axes, const SweepResult& result) {
  nlohmann::json rows = nlohmann::json::array();
  for (const SweepRow& row : result.rows) {
    nlohmann::json entry{{"model", row.model},
                         {"split", row.split},
                         {"interval", row.interval},
                         {"error", row.error},
                         {"validation_error", row.validation},
                         {"warnings", row.warnings},
                         {"values", nlohmann::json::object()},
                         {"better_than_none", nullptr}};
    if (row.better) entry["better_than_none"] = *row.better;
    for (std::size_t a = 0; a < axes.size(); ++a) entry["values"][axes[a].key] = row.values[a];
    rows.push_back(std::move(entry));
  }
  return {{"rows", rows},
          {"best", result.best ? nlohmann::json(*result.best) : nlohmann::json(nullptr)},
          {"made", result.done},
          {"kept", result.kept}};
}

/// The command again, with absolute paths, for jobs that start anywhere.
void write_slurm(const CLI::App& command, const Experiment& experiment, const std::vector<SweepAxis>& axes,
                 const std::string& folder, const SweepOptions& options) {
  namespace fs = std::filesystem;
  std::vector<std::string> words{fs::read_symlink("/proc/self/exe").string()};
  for (const std::string& plugin : command.get_parent()->get_option("--plugin")->results())
    words.insert(words.end(), {"--plugin", fs::absolute(plugin).string()});
  words.push_back("sweep");
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == "--slurm" || name == "--help") continue;
    for (const std::string& value : option->results()) {
      const bool flag = option->get_expected_max() == 0;
      const bool file = name == "experiment" || name == "--output" || (name == "--json" && value != "-");
      if (name != "experiment") words.push_back(name);
      if (!flag) words.push_back(file ? fs::absolute(value).string() : value);
    }
  }
  const std::size_t points = sweep_points(axes, options);
  make_folder(folder);
  const fs::path script = fs::path(folder) / "sweep.sh";
  write_file_atomically(script, slurm_script(words, points));
  show("{}: {} runs of {}; submit them with: bash {}\n", script.string(), points, experiment.config.file(),
       script.string());
}

}  // namespace

void add_sweep(CLI::App& program) {
  struct Options {
    Common common;
    SweepOptions sweep;
    std::string experiment, folder, seeds, device = "cpu";
    std::vector<std::string> over;
    std::size_t point = 0;
    bool slurm = false;
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
  command->add_flag("--slurm", options->slurm,
                    "Write DIR/sweep.sh, which submits the sweep as a Slurm job array, and run nothing");
  CLI::Option* point = command
                           ->add_option("--point", options->point,
                                        "Run only this combination, counted from 0: a task of a job array")
                           ->check(CLI::Range(0, 9999))
                           ->type_name("N");
  command->add_flag("--only-data", options->sweep.only_data, "Only make the data that the runs share")
      ->excludes(point);
  add_common(*command, options->common, true);
  command->callback([options, point, command] {
    const Experiment experiment = Experiment::read(options->experiment);
    std::vector<SweepAxis> axes;
    for (const std::string& text : options->over) axes.push_back(sweep_axis(text));
    if (!options->seeds.empty()) options->sweep.run.seeds = seed_range(options->seeds);
    options->sweep.run.device = device_from(options->device);
    options->sweep.run.threads = options->common.threads;
    options->sweep.run.quiet = options->common.quiet;
    if (point->count() > 0) options->sweep.point = options->point;
    if (options->slurm) {
      on_root([&] { write_slurm(*command, experiment, axes, options->folder, options->sweep); });
      return;
    }
    const SweepResult result = sweep(experiment, axes, options->folder, options->sweep);
    if (!ranks().root()) return;
    if (options->sweep.only_data || options->sweep.point) {
      show("{} made, {} kept\n", result.done, result.kept);
      return;
    }
    if (!options->common.json.empty()) write_json(options->common.json, to_json(axes, result));
    if (options->common.json == "-") return;
    show("{}\n{} made, {} kept\ntable: {}/sweep.csv, figure: {}/sweep.svg, page: {}/sweep.html\n",
         render(result.table, TableFormat::text), result.done, result.kept, options->folder, options->folder,
         options->folder);
    if (result.best) show("best by validation error: {}\n", fmt::join(result.table.rows[*result.best], ", "));
    if (!result.failures.empty())
      throw Error("{} of the runs failed, the others are in the table: {}", result.failures.size(),
                  fmt::join(result.failures, "; "));
  });
}

}  // namespace mac::cli
