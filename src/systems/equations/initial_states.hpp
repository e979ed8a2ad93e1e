// Initial states that an experiment gives as text or as lists of numbers.
#pragma once

#include <mac/config.hpp>
#include <mac/system.hpp>

#include "systems/equations/model.hpp"

namespace mac::equations {

/// How each variable of the state begins: a formula with random draws, or numbers.
struct Start {
  Expression formula;
  Source source;
  std::vector<double> numbers;  // one for each point; empty: the formula
};
using Starts = std::map<std::string, Start>;

/// Reads `X = "normal(0, 1)"`, `X = 3` or `X = [1, 2, 3]` for every variable that the table names.
void read_starts(const ConfigTable& table, const Model& model, Starts& starts);
/// UsageError unless every variable has a start.
void check_complete(const ConfigTable& table, const Model& model, const Starts& starts);

/// The states of a split: its own table on top of the system's.
std::unique_ptr<InitialCondition> make_initial(const ConfigTable* split, std::shared_ptr<const Model> model,
                                               Starts starts);

}  // namespace mac::equations
