// The error of a sequence, and its mean over trajectories.
#pragma once

#include <mac/evaluation.hpp>
#include <span>
#include <vector>

namespace mac {

/// sqrt( sum (pred - true)^2 / sum true^2 ) of each variable over the times of (n_time, width); NaN for a
/// variable that a symmetry keeps at zero (phi_k of sin x), which has no relative error.
std::vector<double> relative_l2(std::span<const double> predicted, std::span<const double> truth,
                                std::size_t width);

/// NaN of no values.
MeanStd mean_std(const std::vector<double>& values);

}  // namespace mac
