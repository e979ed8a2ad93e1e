// Equations as C++ that a compiler at run time makes device code of (coupling/cuda/written_kernel.hpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "systems/equations/program.hpp"

namespace mac::equations {

/// The rates of y (variables), a function template of the scalar (double, or Dual for its derivatives):
///
///   namespace mac::written {
///   inline constexpr int variables = ...;
///   template <class Scalar> void rates(const Scalar* y, Scalar* rate);
///   }
///
/// None where that would be more than WrittenEquations::most_operations.
std::optional<std::string> device_code(const Graph& graph, const std::vector<Output>& outputs,
                                       std::size_t variables);

}  // namespace mac::equations
