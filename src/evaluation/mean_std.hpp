// Means over trajectories.
#pragma once

#include <mac/evaluation.hpp>
#include <vector>

namespace mac {

/// NaN of no values.
MeanStd mean_std(const std::vector<double>& values);

}  // namespace mac
