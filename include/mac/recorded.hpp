// Recorded data (system "recorded") with a reduced right-hand side that only the running program knows: a
// function of Python, or one that was fitted to the data.
#pragma once

#include <functional>
#include <mac/system.hpp>

namespace mac {

/// dydt (count, d) of y (count, d)
using ColumnsRhs = std::function<void(std::size_t count, const double* y, double* dydt)>;

/// The variables of `recorded` with this right-hand side; its Jacobian is taken by central differences. The
/// function may be called by several threads at once.
std::shared_ptr<const System> with_reduced_rhs(std::shared_ptr<const System> recorded, ColumnsRhs rhs);

}  // namespace mac
