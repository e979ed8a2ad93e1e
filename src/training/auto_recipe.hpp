// recipe = "auto": settings for a problem that nobody tuned.
//
// Short trainings try input noise, then learning rate and size; each is judged by free rollouts over the
// validation data, from which it is seen whether the coupled model stays on course; the error along true
// trajectories says nothing about that. The two best are trained in full, and the better one is the model.
// The trials are a fixed schedule of steps, so that the same plan, seed and data give the same bytes; only a
// time budget cuts whole trials.
#pragma once

#include <mac/training.hpp>

namespace mac {

/// Trains one seed of a plan with recipe = "auto". The trials live in PATH.trials/ until the model is
/// written; with options.resume they are taken up again. The model's provenance says under "search" what was
/// tried, as JSON.
TrainingResult train_auto(const Experiment& experiment, const ModelPlan& plan, const DataFile& data,
                          const std::string& path, const TrainOptions& options);

}  // namespace mac
