// What recipe = "auto" tried, as a model remembers it.
#pragma once

#include <mac/evaluation.hpp>
#include <mac/model.hpp>
#include <optional>

namespace mac::report {

/// A row for each trial, the chosen one marked, and one for no closure; none where the model was not searched for, or
/// nothing could be judged. Its title says how they were judged.
std::optional<Table> search_table(const Model& model);

}  // namespace mac::report
