// What an optimiser remembers from step to step: arrays under the names they have in checkpoints.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mac {

template <class T>
using OptimiserState = std::map<std::string, std::vector<T>>;

inline const std::string first_moment_key = "first_moment", second_moment_key = "second_moment",
                         bases_key = "bases", weight_changes_key = "weight_changes",
                         gradient_changes_key = "gradient_changes";
/// Those of all optimisers.
inline const std::vector<std::string> optimiser_arrays{first_moment_key, second_moment_key, bases_key,
                                                       weight_changes_key, gradient_changes_key};

}  // namespace mac
