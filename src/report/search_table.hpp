// What recipe = "auto" tried, as a model remembers it.
#pragma once

#include <mac/evaluation.hpp>
#include <mac/model.hpp>
#include <optional>

#include "training/search_account.hpp"

namespace mac::report {

/// None where the model was not searched for, or nothing could be judged.
std::optional<SearchAccount> search_of(const Model& model);

/// A row for each trial, the chosen one marked, one for no closure, and one for the network without memory.
Table search_table(const SearchAccount& account);

}  // namespace mac::report
