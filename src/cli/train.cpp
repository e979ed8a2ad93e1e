// mac train: experiment.toml and data.h5 -> model.safetensors, or the .h5 of a baseline
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <mac/baselines.hpp>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <mac/training.hpp>
#include <memory>

#include "cli/commands.hpp"

namespace mac::cli {

namespace {

namespace fs = std::filesystem;

struct TrainRequest {
  Common common;
  std::string experiment, data, output, model;
  std::int64_t seed = -1;
  std::string seeds;
  bool resume = false;
  std::string device = "cpu";
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

void run(const TrainRequest& request) {
  const Experiment experiment = Experiment::read(request.experiment);
  const DataFile data = DataFile::open(request.data);
  std::vector<ModelPlan> plans;
  for (const ModelPlan& model : chosen_models(experiment, request)) {
    if (model.baseline) {
      plans.push_back(model);
      continue;
    }
    std::vector<std::uint64_t> seeds{model.network->training.seed};
    if (request.seed >= 0) seeds = {static_cast<std::uint64_t>(request.seed)};
    if (!request.seeds.empty()) seeds = seed_range(request.seeds);
    for (const std::uint64_t seed : seeds) {
      plans.push_back(model);
      plans.back().network->training.seed = seed;
    }
  }

  const bool folder = request.output.ends_with('/') || fs::is_directory(request.output);
  if (plans.size() > 1 && !folder)
    throw UsageError("-o {}: {} models need a folder, as in -o runs/", request.output, plans.size());
  if (folder) fs::create_directories(request.output);
  for (const ModelPlan& plan : plans) {
    const std::string path =
        folder ? (fs::path(request.output) / model_file_name(plan)).string() : request.output;
    if (plan.baseline) {
      fmt::print("{}: {}\n", path,
                 train_baseline(experiment, plan, data, path, request.common.threads, request.common.quiet));
      continue;
    }
    const TrainingPlan& training = plan.network->training;
    const TrainingResult result = train(experiment, plan, data, path,
                                        {request.common.threads, request.common.quiet, request.resume,
                                         request.device == "cuda" ? Device::cuda : Device::cpu});
    fmt::print("{}: {} steps of {:.3g} s", path, training.steps(), result.seconds_per_step);
    if (!std::isnan(result.best_validation))
      fmt::print(", best at step {} with a validation {} of {:.4g}", result.best_step,
                 training.select == Selection::loss ? "loss" : "rollout error", result.best_validation);
    fmt::print("\n");
  }
}

}  // namespace

std::vector<std::uint64_t> seed_range(const std::string& text) {
  std::uint64_t first = 0, last = 0;
  const char* const end = text.data() + text.size();
  const auto [colon, first_error] = std::from_chars(text.data(), end, first);
  if (first_error == std::errc() && colon != end && *colon == ':') {
    const auto [rest, last_error] = std::from_chars(colon + 1, end, last);
    if (last_error == std::errc() && rest == end && last > first && last - first <= 10000) {
      std::vector<std::uint64_t> seeds;
      for (std::uint64_t seed = first; seed < last; ++seed) seeds.push_back(seed);
      return seeds;
    }
  }
  throw UsageError("--seeds {}: expected FIRST:END with FIRST < END, as in 0:5 for the seeds 0 to 4", text);
}

void add_train(CLI::App& program) {
  const auto request = std::make_shared<TrainRequest>();
  CLI::App* command =
      program.add_subcommand("train", "Train the closure networks of an experiment and fit its baselines");
  command->footer(
      "Examples:\n"
      "  mac train experiments/burgers.toml --data burgers.h5 --model mac -o mac.safetensors\n"
      "  mac train experiments/burgers.toml --data burgers.h5 --seeds 0:5 -o runs/\n"
      "Beside MODEL.safetensors it writes MODEL.history.csv and, until it is done, a checkpoint that "
      "--resume "
      "goes on from.");
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
                   ->check(CLI::NonNegativeNumber)
                   ->type_name("N");
  command->add_option("--seeds", request->seeds, "A range of seeds, 0:5 for 0 to 4")
      ->excludes(seed)
      ->type_name("A:B");
  command->add_flag("--resume", request->resume, "Go on from the last checkpoint, if there is one");
  command->add_option("--device", request->device, "Where the networks are trained: cpu (default) or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->type_name("DEVICE");
  add_common(*command, request->common, false);
  command->callback([request] { run(*request); });
}

}  // namespace mac::cli
