// A right-hand side that is a Python function f(t, y).
#pragma once

#include "module.hpp"

namespace mac::python {

inline Array copied(const std::vector<py::ssize_t>& shape, const double* values) {
  Array array(shape);
  std::copy_n(values, array.size(), array.mutable_data());
  return array;
}

/// The numbers that `what` gave, of y's shape. The caller holds the GIL. Throws UsageError for anything else.
inline Array checked(const char* what, const py::object& result, const Array& y) {
  const Array values = as_numbers(result, fmt::format("what {} gave", what));
  if (!values)
    throw UsageError("{} gave {}, expected an array of shape {}", what,
                     py::str(py::type::of(result).attr("__name__")).cast<std::string>(), shape_text(y));
  if (shape_text(values) != shape_text(y))
    throw UsageError("{} gave the shape {}, expected that of y, {}", what, shape_text(values), shape_text(y));
  return values;
}

/// dydt = f(t, y), both of this shape. The caller holds the GIL.
inline void call_rhs(const py::object& function, double t, const std::vector<py::ssize_t>& shape,
                     const double* y, double* dydt) {
  const Array state = copied(shape, y);
  const Array rate = checked("the right-hand side", function(t, state), state);
  std::copy_n(rate.data(), rate.size(), dydt);
}

}  // namespace mac::python
