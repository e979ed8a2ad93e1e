// Systems whose equations are Python functions.
#pragma once

#include "module.hpp"

namespace mac::python {

/// Makes the system known by `name`; one of the same name from earlier functions is replaced. UsageError for
/// functions that give other shapes than they should, numbers that are not finite, or a gradient that is none.
PySystem make_function_system(const std::string& name, const py::object& full, const py::object& reduced,
                              const py::object& sample, std::vector<std::string> resolved,
                              std::size_t full_size, std::vector<std::size_t> targets,
                              std::size_t warmup_steps, const py::object& reduced_vjp);

}  // namespace mac::python
