// Recorded data (system "recorded") with a reduced right-hand side that only the running program knows: a
// function of Python, or one that was fitted to the data.
#pragma once

#include <functional>
#include <mac/system.hpp>

namespace mac {

/// dydt (count, d) of y (count, d)
using ColumnsRhs = std::function<void(std::size_t count, const double* y, double* dydt)>;

/// *Adds* J^T adjoint of its Jacobian J at y to grad, all (count, d).
using ColumnsVjp =
    std::function<void(std::size_t count, const double* y, const double* adjoint, double* grad)>;

/// The variables of `recorded` with this right-hand side; without `vjp` its Jacobian is taken by central
/// differences. The functions may be called by several threads at once.
std::shared_ptr<const System> with_reduced_rhs(std::shared_ptr<const System> recorded, ColumnsRhs rhs,
                                               ColumnsVjp vjp = {});

}  // namespace mac
