// All that a training needs to go on as if nothing had happened. Random numbers are not part of it: they are
// functions of the seed and the step.
#pragma once

#include <limits>
#include <mac/training.hpp>
#include <map>
#include <optional>
#include <vector>

#include "training/optimiser_state.hpp"

namespace mac {

struct HistoryRow {
  double step = 0;  // steps done
  double loss = 0, lr = 0, gradient_norm = 0;
  double validation = std::numeric_limits<double>::quiet_NaN();  // NaN: not measured at this step
};

template <class T>
struct TrainingState {
  std::size_t step = 0;     // steps done, over all stages
  std::size_t skipped = 0;  // steps among them that were left out, because a stage ended early
  std::vector<T> parameters;
  OptimiserState<T> optimiser;
  std::vector<T> average;  // of the weights; empty without averaging
  std::vector<T> best;     // empty before the first validation
  std::size_t best_step = 0;
  double best_validation = std::numeric_limits<double>::infinity();
  double first_loss = 0;  // of this stage: what an explosion is measured by
  std::vector<HistoryRow> history;
};

/// What a checkpoint must agree on with the training that takes it up: the plan, the data, ...
using TrainingIdentity = std::map<std::string, std::string>;

/// Puts the new checkpoint in place; the last one becomes the previous one.
template <class T>
void save_checkpoint(const TrainingFiles& files, const TrainingState<T>& state,
                     const TrainingIdentity& identity);

/// The newest checkpoint that is whole; none if there is no checkpoint. Says so on standard error when the
/// newest one is damaged. UsageError if it belongs to another training.
template <class T>
std::optional<TrainingState<T>> load_checkpoint(const TrainingFiles& files, const TrainingIdentity& identity);

void remove_checkpoints(const TrainingFiles& files);

void write_history(const std::string& path, const std::vector<HistoryRow>& history);
/// A JSON object a line: step, stage (from 1 on), loss, lr, gradient_norm, and validation where it was
/// measured (null: the rollouts blew up).
void write_history_lines(const std::string& path, const std::vector<HistoryRow>& history,
                         const TrainingPlan& plan);

}  // namespace mac
