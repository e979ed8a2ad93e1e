// recipe = "auto": settings for a problem that nobody tuned.
//
// Short trainings try kinds of networks, input noise, then learning rate and size, one after the other from what did best
// so far. They learn from the first half of each sequence, and are judged by free rollouts over all of the validation
// data: from these it is seen whether the coupled model stays on course, and whether it does where the lesson ended. The
// error along true trajectories says nothing about that. The best few run a heat on all of the data, its winner is trained
// in full. The trials are a fixed schedule of steps, so that the same plan, seed and data give the same bytes; only a time
// budget cuts them.
#pragma once

#include <mac/training.hpp>

namespace mac {

/// Trains one seed of a plan with recipe = "auto". The trials live in PATH.trials/ until the model is
/// written; with options.resume they are taken up again. The model's provenance says under "search" what was
/// tried, as JSON.
TrainingResult train_auto(const Experiment& experiment, const ModelPlan& plan, const DataFile& data,
                          const std::string& path, const TrainOptions& options);

}  // namespace mac
