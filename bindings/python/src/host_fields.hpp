// Arrays of a host's grid where they lie: one for each variable, all of one shape, strides and precision.
#pragma once

#include <array>
#include <vector>

#include "module.hpp"

namespace mac::python {

/// What mac_step_fields takes. The last axis of a grid counts columns fastest, as ravel() does.
class HostFields {
 public:
  /// A list of `count` arrays of float64 or float32, or an array with `count` rows. Throws UsageError with `name`.
  HostFields(const py::object& value, std::size_t count, const char* name, bool writeable = false);
  /// New arrays like y's, NaN everywhere.
  HostFields(const HostFields& y, std::size_t count);

  std::size_t columns() const { return extents[0] * extents[1] * extents[2]; }
  bool single() const { return single_; }  // precision
  /// Their first numbers; T is double or float as single() says.
  template <class T>
  std::vector<T*> first() const {
    std::vector<T*> addresses;
    for (const py::array& array : arrays_)
      addresses.push_back(static_cast<T*>(const_cast<void*>(array.data())));
    return addresses;
  }
  /// Throws UsageError unless the other ones are of this grid and precision.
  void expect_like(const HostFields& other, const char* name) const;
  /// One array (count, shape of the grid) where they were made here, else what was given.
  py::object value() const { return value_; }

  std::array<std::size_t, 3> extents{1, 1, 1};
  std::array<std::ptrdiff_t, 3> strides{1, 1, 1};  // in elements

 private:
  void take(std::size_t count, const char* name, bool writeable);

  py::object value_;
  std::vector<py::array> arrays_;
  bool single_ = false;
};

}  // namespace mac::python
