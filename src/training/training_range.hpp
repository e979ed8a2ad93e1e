// What the network has seen of its inputs and outputs, for the guards of the runtime.
#pragma once

#include <mac/data.hpp>
#include <mac/model.hpp>

namespace mac {

/// Ranges, and mean and covariance of the inputs, over all of the split; the closure is that of the target. The
/// covariance is left out where it would be large in the file (more than 64 inputs).
TrainingRange fit_training_range(const DataSplit& train, Target target);

}  // namespace mac
