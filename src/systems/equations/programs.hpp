// The two models of a text as programs.
#pragma once

#include <optional>
#include <string>

#include "systems/equations/model.hpp"
#include "systems/equations/program.hpp"

namespace mac::equations {

/// Closure components, each a resolved equation that looks at hidden variables.
std::vector<std::size_t> closure_targets(const Model& model);

/// input: the full state; output: its rates, then (if `with_closure`) the closures.
Program full_program(const Model& model, const std::vector<std::size_t>& targets,
                     const std::vector<double>& means, bool with_closure);
/// input: the resolved variables; output: their rates without what hidden variables add.
Program reduced_program(const Model& model, const std::vector<double>& means, bool keep);
/// The same as code for a device (device_code.hpp); none where it would be too long.
std::optional<std::string> reduced_code(const Model& model, const std::vector<double>& means);
/// input: the full state; output: a number for each expression.
Program scalar_program(const Model& model, const std::vector<Expression>& expressions);

}  // namespace mac::equations
