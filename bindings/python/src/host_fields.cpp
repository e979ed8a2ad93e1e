#include "host_fields.hpp"

#include <algorithm>
#include <limits>

namespace mac::python {

namespace {

bool lie_alike(const py::array& a, const py::array& b) {
  return a.ndim() == b.ndim() && a.itemsize() == b.itemsize() &&
         std::equal(a.shape(), a.shape() + a.ndim(), b.shape()) &&
         std::equal(a.strides(), a.strides() + a.ndim(), b.strides());
}

}  // namespace

HostFields::HostFields(const py::object& value, std::size_t count, const char* name, bool writeable)
    : value_(value) {
  take(count, name, writeable);
}

HostFields::HostFields(const HostFields& y, std::size_t count) : single_(y.single_) {
  const py::array& like = y.arrays_.front();
  std::vector<py::ssize_t> shape(like.shape(), like.shape() + like.ndim());
  shape.insert(shape.begin(), static_cast<py::ssize_t>(count));
  const py::array made =
      single_ ? py::array(py::array_t<float>(shape)) : py::array(py::array_t<double>(shape));
  made.attr("fill")(std::numeric_limits<double>::quiet_NaN());
  value_ = made;
  take(count, "out", true);
}

void HostFields::take(std::size_t count, const char* name, bool writeable) {
  if (!py::isinstance<py::sequence>(value_) && !py::isinstance<py::array>(value_))
    throw UsageError("{} is a {}, expected a list of {} arrays", name,
                     py::type::of(value_).attr("__name__").cast<std::string>(), count);
  for (const py::handle item : value_) {
    const std::size_t i = arrays_.size();
    if (!py::isinstance<py::array_t<double>>(item) && !py::isinstance<py::array_t<float>>(item))
      throw UsageError("{}[{}] is no array of float64 or float32", name, i);
    const auto array = py::reinterpret_borrow<py::array>(item);
    if (array.ndim() > 3 || array.size() == 0)
      throw UsageError("{}[{}] has shape {}, expected up to three axes and an element", name, i,
                       shape_text(array));
    if (writeable && !array.writeable()) throw UsageError("{}[{}] cannot be written", name, i);
    bool whole =
        reinterpret_cast<std::uintptr_t>(array.data()) % static_cast<std::size_t>(array.itemsize()) == 0;
    for (py::ssize_t axis = 0; axis < array.ndim(); ++axis)
      whole = whole && array.strides(axis) % array.itemsize() == 0;
    if (!whole) throw UsageError("{}[{}] does not lie at whole numbers of elements", name, i);
    if (i > 0 && !lie_alike(array, arrays_.front()))
      throw UsageError("{}[{}] does not lie as {}[0], expected the same shape, strides and precision", name,
                       i, name);
    arrays_.push_back(array);
  }
  if (arrays_.size() != count) throw UsageError("{} has {} arrays, expected {}", name, arrays_.size(), count);
  const py::array& first = arrays_.front();
  single_ = first.itemsize() == sizeof(float);
  for (py::ssize_t axis = 0; axis < first.ndim(); ++axis) {
    const auto k = static_cast<std::size_t>(first.ndim() - 1 - axis);
    extents[k] = static_cast<std::size_t>(first.shape(axis));
    strides[k] = first.strides(axis) / first.itemsize();
  }
}

void HostFields::expect_like(const HostFields& other, const char* name) const {
  if (other.extents != extents || other.single_ != single_)
    throw UsageError("{} has arrays of {} of shape {}, expected those of y: {} of shape {}", name,
                     other.single_ ? "float32" : "float64", shape_text(other.arrays_.front()),
                     single_ ? "float32" : "float64", shape_text(arrays_.front()));
}

}  // namespace mac::python
