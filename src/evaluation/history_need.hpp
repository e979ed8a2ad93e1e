// Whether a problem needs history: hidden variables that start where the resolved ones do not show.
#pragma once

#include <mac/data.hpp>
#include <mac/rollout.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mac {

/// The error of the closure at each time along true trajectories, in standard deviations of the true closure: 1 says
/// as much as nothing. Over at most `most` trajectories.
std::vector<double> closure_errors(const ClosureModel& model, const DataSplit& split, std::size_t most);

/// A sentence where the closure at the first times is as good as unpredictable and well known later.
std::optional<std::string> history_warning(const std::string& model, const std::vector<double>& errors,
                                           double dt);

}  // namespace mac
