// Derivatives of steps, as methods of Closure and as mac.Tape.
#include "closure.hpp"

namespace mac::python {

namespace {

/// (columns, width) of an array; a single column may be (width,).
struct Rows {
  Array numbers;
  std::size_t columns;
  bool one;

  Rows(const py::object& value, const char* name, std::size_t width) : numbers(python::numbers(value, name)) {
    one = numbers.ndim() == 1;
    if ((!one && numbers.ndim() != 2) || static_cast<std::size_t>(numbers.shape(numbers.ndim() - 1)) != width)
      throw UsageError("{} has shape {}, expected ({},) or (columns, {})", name, shape_text(numbers), width,
                       width);
    columns = one ? 1 : static_cast<std::size_t>(numbers.shape(0));
  }
  void expect(std::size_t count, const char* name) const {
    if (columns != count) throw UsageError("{} has {} columns, expected {}", name, columns, count);
  }
};

Array like(const Rows& rows, std::size_t width) {
  const auto last = static_cast<py::ssize_t>(width);
  return rows.one ? make_array({last}) : make_array({static_cast<py::ssize_t>(rows.columns), last});
}
std::span<double> span(Array& array) {
  return {array.mutable_data(), static_cast<std::size_t>(array.size())};
}

/// A copy of a memory's derivative, or zeros.
Array memory_like(const py::object& value, const char* name, const Rows& rows, std::size_t width) {
  Array copy = like(rows, width);
  if (value.is_none()) {
    std::ranges::fill(span(copy), 0.0);
  } else {
    const Rows given(value, name, width);
    given.expect(rows.columns, name);
    std::ranges::copy(view(given.numbers), span(copy).begin());
  }
  return copy;
}

py::tuple tangent(Closure& closure, const py::object& y, const py::object& dy, const py::object& dmemory) {
  const runtime::Model& model = closure.model();
  const Rows at(y, "y", model.inputs()), along(dy, "dy", model.inputs());
  along.expect(at.columns, "dy");
  const auto claimed = closure.claim();
  runtime::State& state = closure.state_for(at.columns);
  Array memory = memory_like(dmemory, "dmemory", at, state.memory_size()),
        dclosure = like(at, model.outputs());
  state.step_tangent(view(at.numbers), view(along.numbers), span(memory), span(dclosure));
  return py::make_tuple(dclosure, memory);
}

py::tuple adjoint(Closure& closure, const py::object& y, const py::object& gclosure,
                  const py::object& gmemory) {
  const runtime::Model& model = closure.model();
  const Rows at(y, "y", model.inputs()), of(gclosure, "gclosure", model.outputs());
  of.expect(at.columns, "gclosure");
  const auto claimed = closure.claim();
  runtime::State& state = closure.state_for(at.columns);
  Array memory = memory_like(gmemory, "gmemory", at, state.memory_size()), gy = like(at, model.inputs());
  state.step_adjoint(view(at.numbers), view(of.numbers), span(memory), span(gy));
  return py::make_tuple(gy, memory);
}

Array jacobian(Closure& closure, const py::object& y) {
  const runtime::Model& model = closure.model();
  const Rows at(y, "y", model.inputs());
  const auto claimed = closure.claim();
  runtime::State& state = closure.state_for(at.columns);
  const auto outputs = static_cast<py::ssize_t>(model.outputs()),
             inputs = static_cast<py::ssize_t>(model.inputs());
  Array result = at.one ? make_array({outputs, inputs})
                        : make_array({static_cast<py::ssize_t>(at.columns), outputs, inputs});
  state.step_jacobian(view(at.numbers), span(result));
  return result;
}

Array memory(Closure& closure) {
  const auto claimed = closure.claim();
  const runtime::State& state = closure.remembered();
  const std::vector<double> numbers = state.memory();
  Array result =
      make_array({static_cast<py::ssize_t>(state.columns()), static_cast<py::ssize_t>(state.memory_size())});
  std::ranges::copy(numbers, result.mutable_data());
  return result;
}

void set_memory(Closure& closure, const py::object& value) {
  const auto claimed = closure.claim();
  runtime::State& state = closure.remembered();
  const Rows given(value, "memory", state.memory_size());
  given.expect(state.columns(), "memory");
  state.set_memory(view(given.numbers));
}

class Tape {
 public:
  Tape(const Closure& closure, std::size_t steps, std::size_t columns)
      : model_(closure.model()), columns_(columns), tape_(model_, columns, steps) {}

  std::size_t steps() const { return tape_.steps(); }
  std::size_t columns() const { return columns_; }
  void clear() { tape_.clear(); }

  Array step(Closure& closure, const py::object& y) {
    const Rows at(y, "y", model_.inputs());
    at.expect(columns_, "y");
    const auto claimed = closure.claim();
    runtime::State& state = closure.state_for(at.columns);
    memory_size_ = state.memory_size();
    Array result = like(at, model_.outputs());
    tape_.step(state, view(at.numbers), span(result));
    return result;
  }
  py::tuple tangent(std::size_t step, const py::object& dy, const py::object& dmemory) {
    const Rows along(dy, "dy", model_.inputs());
    along.expect(columns_, "dy");
    Array memory = memory_like(dmemory, "dmemory", along, memory_size_),
          dclosure = like(along, model_.outputs());
    tape_.tangent(step, view(along.numbers), span(memory), span(dclosure));
    return py::make_tuple(dclosure, memory);
  }
  py::tuple adjoint(std::size_t step, const py::object& gclosure, const py::object& gmemory) {
    const Rows of(gclosure, "gclosure", model_.outputs());
    of.expect(columns_, "gclosure");
    Array memory = memory_like(gmemory, "gmemory", of, memory_size_), gy = like(of, model_.inputs());
    tape_.adjoint(step, view(of.numbers), span(memory), span(gy));
    return py::make_tuple(gy, memory);
  }

 private:
  runtime::Model model_;
  std::size_t columns_, memory_size_ = 0;
  runtime::Tape tape_;
};

}  // namespace

void bind_derivatives(py::module_& module) {
  py::class_<Closure, std::shared_ptr<Closure>>(module.attr("Closure"))
      .def("tangent", &tangent, py::arg("y"), py::arg("dy"), py::arg("dmemory") = py::none(),
           "About the step that would come next at y: (dclosure, dmemory after it) along the direction (dy, "
           "dmemory before it), where None is zero. Nothing is stepped.")
      .def("adjoint", &adjoint, py::arg("y"), py::arg("gclosure"), py::arg("gmemory") = py::none(),
           "The transpose of tangent: (gy, gmemory before the step) from (gclosure, gmemory after it).")
      .def("jacobian", &jacobian, py::arg("y"),
           "d closure / d y of the step that would come next, (outputs, inputs) or (columns, outputs, "
           "inputs).")
      .def_property("memory", &memory, &set_memory,
                    "The memory as numbers, (columns, memory_size), in double precision.");
  py::class_<Tape>(module, "Tape",
                   "Steps of a closure, recorded for derivatives along the window afterwards.")
      .def(py::init<const Closure&, std::size_t, std::size_t>(), py::arg("closure"), py::arg("steps"),
           py::arg("columns") = 1, "Room for so many steps of so many columns.")
      .def("step", &Tape::step, py::arg("closure"), py::arg("y"), "closure.step(y), recorded.")
      .def("tangent", &Tape::tangent, py::arg("step"), py::arg("dy"), py::arg("dmemory") = py::none(),
           "Of recorded step number `step`, from 0: (dclosure, dmemory after it).")
      .def("adjoint", &Tape::adjoint, py::arg("step"), py::arg("gclosure"), py::arg("gmemory") = py::none(),
           "The transpose: (gy, gmemory before the step).")
      .def("clear", &Tape::clear, "Forgets all steps.")
      .def_property_readonly("steps", &Tape::steps, "Steps recorded so far.")
      .def_property_readonly("columns", &Tape::columns);
}

}  // namespace mac::python
