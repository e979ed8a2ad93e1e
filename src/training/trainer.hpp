// Training exactly as a plan says; mac/training.hpp decides which plans there are to be trained.
#pragma once

#include <mac/training.hpp>

namespace mac {

std::vector<TrainingResult> train_as_planned(const Experiment& experiment, const ModelPlan& plan,
                                             std::span<const std::uint64_t> seeds, const DataFile& data,
                                             std::span<const std::string> paths, const TrainOptions& options);

}  // namespace mac
