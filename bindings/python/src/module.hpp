// What the files of the Python module share.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <mac/system.hpp>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace mac::python {

namespace py = pybind11;

/// Numbers in, whatever they were before: converted and copied only where they are not contiguous doubles.
using Array = py::array_t<double, py::array::c_style | py::array::forcecast>;

inline Array make_array(std::vector<py::ssize_t> shape) { return Array(std::move(shape)); }
inline std::span<const double> view(const Array& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}
inline std::string shape_text(const py::array& array) {
  return py::str(array.attr("shape")).cast<std::string>();
}

/// As numbers, or nothing. What a conversion would lose in silence, imaginary parts and masks, is refused; `name` stands
/// for the value in messages.
inline Array as_numbers(const py::object& value, std::string_view name) {
  const auto& numpy = py::detail::npy_api::get();
  if (numpy.PyArray_Check_(value.ptr())) {
    if (py::reinterpret_borrow<py::array>(value).dtype().kind() == 'c')
      throw UsageError("{} is an array of complex numbers, expected real ones", name);
    if (Py_TYPE(value.ptr()) != numpy.PyArray_Type_ && py::hasattr(value, "mask") &&
        value.attr("mask").attr("any")().cast<bool>())
      throw UsageError("{} is a masked array, expected numbers everywhere", name);
  }
  Array array = Array::ensure(value);
  if (!array) PyErr_Clear();
  return array;
}

/// The numbers of the argument `name`.
inline Array numbers(const py::object& value, const char* name) {
  Array array = as_numbers(value, name);
  if (!array)
    throw UsageError("{} is a {}, expected an array of numbers", name,
                     py::type::of(value).attr("__name__").cast<std::string>());
  return array;
}

/// A long call: other Python threads run, and Ctrl-C stops it (KeyboardInterrupt). HDF5 is not thread-safe,
/// so calls that read or write files wait for each other.
class LongCall {
 public:
  LongCall() : turn_(mutex()) {}

 private:
  static std::mutex& mutex() {
    static std::mutex the;
    return the;
  }

  py::gil_scoped_release release_;
  std::unique_lock<std::mutex> turn_;
  InterruptScope interrupts_;
};

/// A System in Python; experiments share theirs.
struct PySystem {
  std::shared_ptr<const System> system;
  std::map<std::string, std::string> parameters = {};  // of its equations
};

// Each adds its part to the module.
void bind_closure(py::module_& module);
void bind_derivatives(py::module_& module);
void bind_hosts(py::module_& module);
void bind_rollout(py::module_& module);
void bind_study(py::module_& module);
void bind_array_runs(py::module_& module);

}  // namespace mac::python
