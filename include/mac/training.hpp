// Training a closure network on a data file.
#pragma once

#include <mac/data.hpp>
#include <mac/model.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mac {

/// Where the network is trained. A checkpoint of one goes on on the other.
enum class Device { cpu, cuda };
Device device_from(std::string_view name);  // throws UsageError

struct TrainOptions {
  int threads = 0;  // 0: all cores
  bool quiet = false;
  bool resume = false;  // go on from the checkpoint beside the model, if there is one
  Device device = Device::cpu;
  bool json_lines = false;  // the history as JSON lines, too
  double budget = 0;  // seconds for the trials of recipe = "auto" and the training after them; 0: any number
};

/// The files of a training whose result is `model` ("runs/mac.safetensors").
struct TrainingFiles {
  explicit TrainingFiles(const std::string& model);
  std::string model;
  std::string history;              // runs/mac.history.csv
  std::string history_lines;        // runs/mac.history.jsonl, if it is asked for
  std::string checkpoint;           // runs/mac.checkpoint.safetensors, while training is not finished
  std::string previous_checkpoint;  // the one before
};

struct TrainingResult {
  Model model;
  std::size_t best_step = 0;    // steps after which the model's weights were taken
  double best_validation = 0;   // as plan.select measures it; NaN where nothing is measured
  double seconds_per_step = 0;  // of this process
  std::size_t steps = 0;        // that were taken: fewer than planned where `patience` ended a stage
  // recipe = "auto": what was tried, as JSON and as a table; a sentence where no trial is better than none.
  std::string search = {}, table = {}, warning = {};
};

/// Trains a network of the experiment and writes its files. The same plan, seed and data give the same bytes
/// for any number of threads, and after an interruption and `resume` as well. Throws Error when the loss
/// turns NaN or explodes, Interrupted after saving a checkpoint when the user asked to stop.
TrainingResult train(const Experiment& experiment, const ModelPlan& plan, const DataFile& data,
                     const std::string& path, const TrainOptions& options);

/// The same for several seeds, each to the same bytes as alone; paths (seeds). On a CUDA device they train in
/// the same launches. When some go wrong the others are finished before the Error.
std::vector<TrainingResult> train_seeds(const Experiment& experiment, const ModelPlan& plan,
                                        std::span<const std::uint64_t> seeds, const DataFile& data,
                                        std::span<const std::string> paths, const TrainOptions& options);

}  // namespace mac
