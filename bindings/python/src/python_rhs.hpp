// A right-hand side that is a Python function f(t, y).
#pragma once

#include "module.hpp"

namespace mac::python {

/// dydt = f(t, y), both of this shape. The caller holds the GIL. Throws UsageError for a result of another
/// shape.
inline void call_rhs(const py::object& function, double t, const std::vector<py::ssize_t>& shape,
                     const double* y, double* dydt) {
  Array state(shape);
  std::copy_n(y, state.size(), state.mutable_data());
  const py::object result = function(t, state);
  const Array rate = Array::ensure(result);
  if (!rate) {
    PyErr_Clear();
    throw UsageError("the right-hand side gave {}, expected an array of shape {}",
                     py::str(py::type::of(result).attr("__name__")).cast<std::string>(), shape_text(state));
  }
  if (shape_text(rate) != shape_text(state))
    throw UsageError("the right-hand side gave the shape {}, expected that of y, {}", shape_text(rate),
                     shape_text(state));
  std::copy_n(rate.data(), rate.size(), dydt);
}

}  // namespace mac::python
