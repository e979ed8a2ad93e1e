// mac train: experiment.toml and data.h5 -> model.safetensors, or the .h5 of a baseline
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <mac/baselines.hpp>
#include <mac/error.hpp>
#include <mac/judge.hpp>
#include <mac/step_stability.hpp>
#include <mac/training.hpp>
#include <memory>

#include "base/standard_streams.hpp"
#include "cli/commands.hpp"
#include "data/open_on_ranks.hpp"
#include "io/atomic_file.hpp"
#include "parallel/ranks.hpp"

namespace mac::cli {

namespace {

namespace fs = std::filesystem;

struct TrainRequest {
  Common common;
  std::string experiment, data, output, model;
  std::int64_t seed = -1;
  std::string seeds;
  bool resume = false;
  std::string device = "cpu", precision = "float32";
  std::string log;
  double budget = 0;
};

std::vector<ModelPlan> chosen_models(const Experiment& experiment, const TrainRequest& request) {
  std::vector<ModelPlan> chosen;
  std::vector<std::string> names;
  for (const ModelPlan& model : experiment.models) {
    names.push_back(model.name);
    if (request.model.empty() || request.model == model.name) chosen.push_back(model);
  }
  if (names.empty()) throw UsageError("{}: has no [[models]] to train", request.experiment);
  if (chosen.empty())
    throw UsageError("{}: has no model \"{}\" to train, only {}", request.experiment, request.model,
                     fmt::join(names, ", "));
  return chosen;
}

void print(const std::string& path, const TrainingPlan& plan, const TrainingResult& result) {
  if (!result.search.empty()) {  // recipe = "auto" says itself what it chose
    show("{}{}\n", result.table, path);
    if (!result.warning.empty()) say("warning: {}: {}\n", path, result.warning);
    return;
  }
  show("{}: {} steps of {:.3g} s", path, result.steps, result.seconds_per_step);
  if (!std::isnan(result.best_validation))
    show(", best at step {} with a validation {} of {:.4g}", result.best_step,
         plan.select == Selection::loss ? "loss" : "rollout error", result.best_validation);
  show("\n");
}

/// On the CPU one seed after the other, on a device all at once.
template <class PathOf>
void train_network(const Experiment& experiment, const ModelPlan& model, const DataFile& data,
                   const std::vector<std::uint64_t>& seeds, const PathOf& path_of,
                   const TrainRequest& request) {
  const TrainOptions options{request.common.threads,      request.common.quiet,   request.resume,
                             device_from(request.device), request.log == "jsonl", request.budget};
  std::vector<std::string> paths;
  for (const std::uint64_t seed : seeds) {
    ModelPlan plan = model;
    plan.network->training.seed = seed;
    paths.push_back(path_of(plan));
  }
  const std::size_t together = options.device == Device::cuda ? seeds.size() : 1;
  for (std::size_t i = 0; i < seeds.size(); i += together) {
    const auto results = train_seeds(experiment, model, std::span(seeds).subspan(i, together), data,
                                     std::span(paths).subspan(i, together), options);
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (!ranks().root()) continue;
      const Alone rest;
      print(paths[i + k], model.network->training, results[k]);
      print_verdicts(judge_training(paths[i + k], data, request.common.threads));
    }
  }
}

void run(const TrainRequest& request) {
  set_products(request.precision, request.device);
  const Experiment experiment = Experiment::read(request.experiment);
  const DataFile data = open_on_ranks(request.data);
  const std::vector<ModelPlan> models = chosen_models(experiment, request);
  const auto seeds_of = [&](const ModelPlan& model) -> std::vector<std::uint64_t> {
    if (request.seed >= 0) return {static_cast<std::uint64_t>(request.seed)};
    if (!request.seeds.empty()) return seed_range(request.seeds);
    return {model.network->training.seed};
  };
  std::size_t files = 0;
  for (const ModelPlan& model : models) files += model.file ? 0 : model.baseline ? 1 : seeds_of(model).size();
  const bool folder = request.output.ends_with('/') || fs::is_directory(request.output);
  if (files > 1 && !folder)
    throw UsageError("-o {}: {} models need a folder, as in -o runs/", request.output, files);
  if (folder) on_root([&] { make_folder(request.output); });
  const auto path_of = [&](const ModelPlan& plan) {
    return folder ? (fs::path(request.output) / model_file_name(plan)).string() : request.output;
  };

  check_data(experiment, data);
  if (const auto warning = stability_warning(*experiment.system, experiment.rollout, data))
    say("warning: {}\n", *warning);
  for (const ModelPlan& model : models) {
    if (model.file) {
      show("{}: is trained already: {}\n", model.name, *model.file);
      continue;
    }
    if (model.baseline) {
      on_root([&] {
        const std::string path = path_of(model);
        show("{}: {}\n", path,
             train_baseline(experiment, model, data, path, request.common.threads, request.common.quiet));
        print_verdicts(judge_training(path, data, request.common.threads));
      });
      continue;
    }
    train_network(experiment, model, data, seeds_of(model), path_of, request);
  }
}

}  // namespace

void add_train(CLI::App& program) {
  const auto request = std::make_shared<TrainRequest>();
  CLI::App* command =
      program.add_subcommand("train", "Train the closure networks of an experiment and fit its baselines");
  command->footer(
      "Examples:\n"
      "  mac train experiments/burgers.toml --data burgers.h5 --model mac -o mac.safetensors\n"
      "  mac train experiments/burgers.toml --data burgers.h5 --seeds 0:5 -o runs/\n"
      "Beside MODEL.safetensors it writes MODEL.history.csv and, until it is done, a checkpoint that "
      "--resume goes on from.");
  command->add_option("experiment", request->experiment, "Experiment file (TOML)")
      ->required()
      ->type_name("EXPERIMENT");
  command->add_option("--data", request->data, "Data file of mac generate")->required()->type_name("FILE");
  command
      ->add_option(
          "-o,--output", request->output,
          "Model file to write, or a folder/ for NAME-seedN.safetensors of each network and seed and "
          "NAME.h5 of each baseline")
      ->required()
      ->type_name("FILE");
  command->add_option("--model", request->model, "Train only this model of the experiment")
      ->type_name("NAME");
  auto* seed = command->add_option("--seed", request->seed, "Seed of weights and batches")
                   ->check(non_negative_number())
                   ->type_name("N");
  command->add_option("--seeds", request->seeds, "A range of seeds, 0:5 for 0 to 4")
      ->excludes(seed)
      ->type_name("A:B");
  command->add_flag("--resume", request->resume, "Go on from the last checkpoint, if there is one");
  command->add_option("--device", request->device, "Where the networks are trained: cpu (default) or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->type_name("DEVICE");
  command
      ->add_option("--precision", request->precision,
                   "Matrix products on a CUDA device, of wide networks and of rollout losses over many "
                   "chains: float32 (default), or tf32, faster with factors rounded to 10 bits")
      ->check(CLI::IsMember({"float32", "tf32"}))
      ->type_name("SCALAR");
  command
      ->add_option(
          "--export-log", request->log,
          "Write the history in this format, too: jsonl, a JSON object a line in MODEL.history.jsonl")
      ->check(CLI::IsMember({"jsonl"}))
      ->type_name("FORMAT");
  command
      ->add_option(
          "--budget", request->budget,
          "Time for recipe = \"auto\", as in 90s, 10min, 2h: trials that would take longer are left out")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"min", 60}, {"h", 3600}},
                                        CLI::AsNumberWithUnit::UNIT_OPTIONAL))
      ->check(positive_number())
      ->type_name("TIME");
  add_common(*command, request->common, false);
  command->callback([request] { run(*request); });
}

}  // namespace mac::cli
