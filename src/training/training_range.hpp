// What the network has seen of its inputs and outputs, for the guards of the runtime.
#pragma once

#include <mac/data.hpp>
#include <mac/model.hpp>

#include "coupling/input_map.hpp"

namespace mac {

/// Ranges, and mean and covariance of the inputs, over all of the split and all sites; the closure is that of the
/// target. The covariance is left out where it would be large in the file (more than 64 inputs).
TrainingRange fit_training_range(const DataSplit& train, const InputMap& inputs, Target target);

}  // namespace mac
