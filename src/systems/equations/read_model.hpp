// [system] kind = "equations" of an experiment.
#pragma once

#include <mac/config.hpp>

#include "systems/equations/model.hpp"

namespace mac::equations {

/// Parameters, variables, equations and reductions; throws UsageError that points at the character.
Model read_model(const ConfigTable& table);

/// Whether a name occurs in an expression.
bool mentions(const Expression& e, std::string_view name);

}  // namespace mac::equations
