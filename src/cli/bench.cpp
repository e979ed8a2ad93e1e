// mac bench: how fast the networks run on this machine
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <mac/error.hpp>
#include <mac/experiment.hpp>
#include <mac/model.hpp>
#include <mac/paper_networks.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/benchmark.hpp"
#include "cli/commands.hpp"
#include "experiment/training_settings.hpp"
#include "parallel/thread_count.hpp"

namespace mac::cli {

namespace {

struct Options {
  Common common;
  std::string work;
  std::string system = "burgers";
  std::string experiment;  // a file whose system it is, beside the network of the paper's system
  std::string kind = "mamba";
  std::string model;  // a file whose network it is, instead of the paper's
  std::string precision = "float32";
  std::size_t d_model = 0, d_state = 0, blocks = 0;  // 0: as the paper's
  std::size_t batch = 0;                             // 0: 1 for a step, 96 for training
  std::size_t length = 101;
  std::string device = "cpu";
  std::string recipe = "fast";
  std::size_t models = 1;
  std::size_t rollout_steps = 0;
  bool autoregressive = false;
};

/// The paper's network for the system, in the sizes that were asked for, or that of a file; of an ensemble one member.
NetworkShape shape_of(const Options& options) {
  if (!options.model.empty()) return load_model(options.model).shape.member();
  NetworkShape shape = paper_network(options.system, layer_kind_from(options.kind));
  if (options.d_model > 0) shape.d_model = options.d_model;
  if (options.d_state > 0) shape.d_state = options.d_state;
  if (options.blocks > 0) shape.n_blocks = options.blocks;
  validate(shape);
  return shape;
}

/// What a result says of its network.
nlohmann::json to_json(const Options& options, const NetworkShape& shape) {
  return {
      {"work", options.work},
      {options.model.empty() ? "system" : "model", options.model.empty() ? options.system : options.model},
      {"kind", to_string(shape.kind)},
      {"d_model", shape.d_model},
      {"d_state", shape.d_state},
      {"blocks", shape.n_blocks},
      {"parameters", parameter_count(shape)}};
}

/// In float64 the device computes the network's passes alone: the rest of a training is on the host.
bool passes_alone(const Options& options) { return options.precision == "float64"; }

/// A training iteration on the device is that of mac train: batch, loss, gradient and the optimiser's step.
DeviceTiming time_on_device(const Options& options, const NetworkShape& shape, std::size_t batch) {
  if (passes_alone(options)) return time_double_passes_on_device(shape, {batch, options.length});
  const auto system =
      options.experiment.empty()
          ? Experiment::parse("[system]\nname = \"" + options.system +
                                  "\"\n[data]\ndt = 1e-4\n[data.test]\ntrajectories = 1\nhorizon = 1\n",
                              "the benchmark")
                .system
          : Experiment::read(options.experiment).system;
  if (system->resolved_size() != shape.d_in || system->closure_size() != shape.d_out)
    throw UsageError(
        "{}: its system has {} resolved variables and {} closures, the network of {} reads {} and gives {}",
        options.experiment, system->resolved_size(), system->closure_size(), options.system, shape.d_in,
        shape.d_out);
  if (options.work == "step") return time_step_on_device(*system, shape, batch);
  return time_training_on_device(*system, shape,
                                 {.recipe = options.recipe,
                                  .batch = batch,
                                  .length = options.length,
                                  .models = options.models,
                                  .rollout_steps = options.rollout_steps,
                                  .autoregressive = options.autoregressive});
}

void run_on_device(const Options& options) {
  const NetworkShape shape = shape_of(options);
  const bool step = options.work == "step";
  const std::size_t batch = options.batch ? options.batch : step ? 1 : 96;
  const auto [timing, gigabytes, kernels] = time_on_device(options, shape, batch);
  nlohmann::json result = to_json(options, shape);
  result.update({{"device", "cuda"},
                 {"precision", options.precision},
                 {"batch", batch},
                 {"gflops", timing.gflops},
                 {"gigabytes", gigabytes}});
  if (step) {
    result["microseconds_per_step"] = 1e6 * timing.median_seconds;
    result["trajectory_steps_per_second"] = static_cast<double>(batch) / timing.median_seconds;
  } else {
    result["length"] = options.length;
    if (!passes_alone(options))
      result.update({{"recipe", options.recipe},
                     {"models", options.models},
                     {"rollout_steps", options.rollout_steps},
                     {"autoregressive", options.autoregressive}});
    result["kernels"] = kernels;
    result["milliseconds_per_iteration"] = 1e3 * timing.median_seconds;
    result["best_milliseconds_per_iteration"] = 1e3 * timing.best_seconds;
  }
  if (!options.common.json.empty()) write_json(options.common.json, result);
  if (options.common.json == "-") return;
  show("{} {}, {} parameters, {}, batch {}, CUDA\n", options.system, options.kind, parameter_count(shape),
       options.precision, batch);
  if (step)
    show("one rollout step: {:.2f} µs (best {:.2f}), {:.3g} trajectory steps a second\n",
         1e6 * timing.median_seconds, 1e6 * timing.best_seconds,
         static_cast<double>(batch) / timing.median_seconds);
  else
    show("{} over {} time points: {:.2f} ms (best {:.2f}), {:.2f} GiB, {} kernels\n",
         passes_alone(options) ? "forward and backward" : "training iteration", options.length,
         1e3 * timing.median_seconds, 1e3 * timing.best_seconds, gigabytes, kernels);
  show("{:.0f} GFLOP/s\n", timing.gflops);
}

template <class T>
void run(const Options& options) {
  const NetworkShape shape = shape_of(options);
  const bool step = options.work == "step";
  const std::size_t batch = options.batch ? options.batch : step ? 1 : 96;
  // A step starts no thread unless asked to.
  const int threads = step && options.common.threads == 0 ? 1 : thread_count(options.common.threads);
  const Timing timing =
      step ? time_step<T>(shape, batch, threads) : time_training<T>(shape, {batch, options.length}, threads);
  const double peak = fma_peak_gflops<T>(threads);
  const double samples = static_cast<double>(step ? batch : batch * options.length);
  const double operations = 2 * static_cast<double>(multiply_adds(shape)) * (step ? 1 : 3);
  const double floor_seconds = 1e-9 * samples * operations / peak;

  nlohmann::json result = to_json(options, shape);
  result.update({{"precision", options.precision},
                 {"batch", batch},
                 {"threads", threads},
                 {"gflops", timing.gflops},
                 {"peak_gflops", peak},
                 {"floor_seconds", floor_seconds}});
  if (step) {
    result["microseconds_per_step"] = 1e6 * timing.median_seconds;
    result["best_microseconds_per_step"] = 1e6 * timing.best_seconds;
  } else {
    result["length"] = options.length;
    result["milliseconds_per_iteration"] = 1e3 * timing.median_seconds;
    result["best_milliseconds_per_iteration"] = 1e3 * timing.best_seconds;
  }
  if (!options.common.json.empty()) write_json(options.common.json, result);
  if (options.common.json == "-") return;

  show("{} {}, {} parameters, {}, batch {}, {} {}\n", options.model.empty() ? options.system : options.model,
       to_string(shape.kind), parameter_count(shape), options.precision, batch, threads,
       threads == 1 ? "thread" : "threads");
  if (step)
    show("one step: {:.2f} µs (best {:.2f})\n", 1e6 * timing.median_seconds, 1e6 * timing.best_seconds);
  else
    show("forward and backward over {} time points: {:.2f} ms (best {:.2f})\n", options.length,
         1e3 * timing.median_seconds, 1e3 * timing.best_seconds);
  show("{:.1f} GFLOP/s, {:.0f} % of the {:.0f} GFLOP/s that multiply-adds alone reach here\n", timing.gflops,
       100 * timing.gflops / peak, peak);
  show("a sample and time: {:.4g} µs; its multiply-adds alone, the floor: {:.4g} µs\n",
       1e6 * timing.median_seconds / samples, 1e6 * floor_seconds / samples);
}

}  // namespace

void add_bench(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("bench", "Measure the networks' speed on this machine");
  command->footer(
      "Examples:\n"
      "  mac bench step --batch 50\n"
      "  mac bench train --d-model 48 --d-state 16 --blocks 2\n"
      "  mac bench step --model zoo/burgers-mac.safetensors --batch 1000\n"
      "  mac bench train --system lorenz96 --kind gru --length 54 --threads 2 --json -\n"
      "  mac bench train --device cuda --length 10001");
  command->add_option("work", options->work, "step: one rollout step; train: a forward and a backward pass")
      ->required()
      ->check(CLI::IsMember({"step", "train"}));
  command->add_option("--system", options->system, "The paper's network for this system")
      ->check(CLI::IsMember({"burgers", "kdv", "lorenz96", "power_grid"}))
      ->capture_default_str();
  command
      ->add_option(
          "--experiment", options->experiment,
          "cuda: equations of this experiment's system instead, as many as the network has variables")
      ->type_name("FILE");
  command->add_option("--kind", options->kind, fmt::format("{}", fmt::join(layer_kind_names(), ", ")))
      ->check(CLI::IsMember(layer_kind_names()))
      ->capture_default_str();
  command
      ->add_option("--precision", options->precision,
                   "Scalar of the network: float32 or float64 (cuda: a forward and a backward pass alone); "
                   "tf32 for cuda's matrix products")
      ->check(CLI::IsMember({"float32", "float64", "tf32"}))
      ->capture_default_str();
  const auto add_size = [&](const char* name, std::size_t& value, const char* what) {
    command->add_option(name, value, fmt::format("{} (default: the paper's)", what))
        ->check(CLI::Range(1, 16384))
        ->type_name("N");
  };
  add_size("--d-model", options->d_model, "Width of the network");
  add_size("--d-state", options->d_state, "States of a channel, of kinds that have them");
  add_size("--blocks", options->blocks, "Blocks of the network");
  command->add_option("--model", options->model, "The network of this model file instead of the paper's")
      ->excludes("--system")
      ->excludes("--kind")
      ->excludes("--d-model")
      ->excludes("--d-state")
      ->excludes("--blocks")
      ->type_name("FILE");
  command->add_option("--batch", options->batch, "Samples at once (default: 1 for step, 96 for train)")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  command->add_option("--length", options->length, "Time points of a training sequence")
      ->check(CLI::Range(1, 10000000))
      ->type_name("T")
      ->capture_default_str();
  command->add_option("--device", options->device, "Where: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--recipe", options->recipe, "cuda: train as this recipe of [training] does")
      ->check(CLI::IsMember(recipe_names()))
      ->capture_default_str();
  command->add_option("--models", options->models, "cuda: models trained at once")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--rollout-steps", options->rollout_steps,
                   "cuda: train through this many coupled steps (default: the closure loss)")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  command->add_flag("--autoregressive", options->autoregressive, "Through the loss's autoregressive form")
      ->needs("--rollout-steps");
  add_common(*command, options->common, true);
  command->callback([options, command] {
    const auto only_for = [&](const std::string& setting, const std::string& value, const char* option) {
      if (setting != value && command->count(option) > 0)
        throw UsageError("{}: applies to {} only", option, value);
    };
    for (const char* option : {"--length", "--recipe", "--models", "--rollout-steps"})
      only_for(options->work, "train", option);
    for (const char* option : {"--recipe", "--models", "--rollout-steps", "--experiment"})
      only_for(options->device, "cuda", option);
    only_for(options->device, "cpu", "--model");
    if (options->device == "cuda" && passes_alone(*options)) {
      if (options->work == "step")
        throw UsageError("--precision float64: a CUDA device rolls out in float32");
      for (const char* option : {"--recipe", "--models", "--rollout-steps", "--experiment"})
        only_for(options->precision, "float32", option);
    }
    set_products(options->precision, options->device);
    if (options->device == "cuda") return run_on_device(*options);
    precision_from(options->precision) == Precision::float32 ? run<float>(*options) : run<double>(*options);
  });
}

}  // namespace mac::cli
