// The error of a sequence of states.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace mac {

/// The error of the paper's tables (tab_burgers_interp_resolved and on): sqrt( sum (pred - true)^2 / sum
/// true^2 ) of each variable over the times of (n_time, width); NaN for a variable that a symmetry keeps at
/// zero (phi_k of sin x), which has no relative error. Times at which the truth is NaN count nowhere.
std::vector<double> relative_l2(std::span<const double> predicted, std::span<const double> truth,
                                std::size_t width);

}  // namespace mac
