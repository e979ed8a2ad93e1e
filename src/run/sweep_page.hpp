// The page of a sweep: what is best, all runs as lines through their settings and errors, the table, the figure.
#pragma once

#include <string>
#include <vector>

#include "run/sweep.hpp"

namespace mac {

/// The parallel coordinates: an axis for each setting and one for each error, a line for each run, dark where the
/// validation error is small.
std::string parallel_coordinates(const std::vector<SweepAxis>& axes, const std::vector<SweepRow>& rows);

/// figure: errors over the first setting, HTML.
std::string sweep_page(const std::vector<SweepAxis>& axes, const SweepResult& result,
                       const std::string& figure);

}  // namespace mac
