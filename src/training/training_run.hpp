// One model in training: what is to be done, how far it has come, and its files.
#pragma once

#include <mac/training.hpp>

#include "coupling/input_map.hpp"
#include "training/checkpoint.hpp"
#include "training/descent.hpp"

namespace mac {

template <class T>
class TrainingRun {
 public:
  /// From `start`, or random weights where that is empty; to resume, from the checkpoint or the finished model
  /// if there is one.
  TrainingRun(const Experiment& experiment, const ModelPlan& model, const DataFile& data,
              const InputMap& inputs, const Normalisation& normalisation, const std::vector<double>& start,
              const std::string& path, const TrainOptions& options);

  TrainingState<T> state;
  std::optional<TrainingResult> result;  // once it is finished
  std::string failure;                   // why it cannot go on

  bool open() const { return !result && failure.empty(); }
  const TrainingPlan& plan() const { return model_.network->training; }
  const std::string& name() const { return model_.name; }
  const NetworkShape& shape() const { return model_.network->shape; }

  /// The weights that would become the model now.
  const std::vector<T>& current() const { return state.average.empty() ? state.parameters : state.average; }

  /// Counts a step whose loss and gradient are these, if they are sound; otherwise sets `failure`.
  void count_step(const StepReport& report, bool first_of_stage);
  /// Adds the step to the history, if it has its place there or something was measured after it.
  void note(const StepReport& report, double validation, bool always);
  /// Keeps the current weights if they are the best so far.
  void judge(double validation);

  /// Validations of the stage since the best one, in it or before it.
  std::size_t validations_since_best(std::size_t stage_start) const;
  /// Goes to the end of the stage without the steps that are left; how many those are.
  std::size_t leave_stage(std::size_t stage_end);

  void save() const;  // checkpoint and history
  void finish(double seconds_per_step);

 private:
  void begin(const std::vector<double>& start);
  void write_histories() const;
  std::optional<TrainingResult> finished_model() const;
  Model trained_model() const;
  TrainingRange range_of_root() const;
  std::string validation_key() const;
  std::map<std::string, std::string> provenance() const;

  const Experiment& experiment_;
  ModelPlan model_;
  const DataFile& data_;
  const InputMap& inputs_;
  const Normalisation& normalisation_;
  TrainingFiles files_;
  TrainOptions options_;
  TrainingIdentity identity_;
};

}  // namespace mac
