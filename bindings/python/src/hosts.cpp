// What hosts with columns, ranges and steps of their own need: methods of Closure, and mac.Coupler.
#include <array>
#include <utility>

#include "closure.hpp"
#include "host_fields.hpp"

namespace mac::python {

namespace {

using runtime::Limit;

constexpr std::array<std::pair<const char*, Limit>, 4> limit_names{
    {{"count", Limit::count}, {"clip", Limit::clip}, {"scale", Limit::scale}, {"fade", Limit::fade}}};

Limit limit_from(const std::string& name, const char* argument, std::size_t allowed) {
  std::string known;
  for (std::size_t k = 0; k < allowed; ++k) {
    if (name == limit_names[k].first) return limit_names[k].second;
    known += fmt::format("{}\"{}\"", k == 0 ? "" : k + 1 == allowed ? " or " : ", ", limit_names[k].first);
  }
  throw UsageError("{} is \"{}\", expected {}", argument, name, known);
}
const char* name_of(Limit limit) { return limit_names[static_cast<std::size_t>(limit)].first; }

py::array_t<double> array_of(const std::vector<double>& values) {
  return py::array_t<double>(static_cast<py::ssize_t>(values.size()), values.data());
}
py::dict dict_of(const runtime::Range& range) {
  py::dict result;
  result["input_low"] = array_of(range.input_low);
  result["input_high"] = array_of(range.input_high);
  result["output_low"] = array_of(range.output_low);
  result["output_high"] = array_of(range.output_high);
  return result;
}

/// Four arrays, or none.
std::optional<runtime::Range> range_from(const py::object& input_low, const py::object& input_high,
                                         const py::object& output_low, const py::object& output_high) {
  const int given =
      !input_low.is_none() + !input_high.is_none() + !output_low.is_none() + !output_high.is_none();
  if (given == 0) return std::nullopt;
  if (given != 4)
    throw UsageError(
        "input_low, input_high, output_low and output_high: give all of them, or none for the range "
        "of the training data");
  const auto values = [](const py::object& value, const char* name) {
    const Array array = numbers(value, name);
    return std::vector<double>(array.data(), array.data() + array.size());
  };
  return runtime::Range{values(input_low, "input_low"), values(input_high, "input_high"),
                        values(output_low, "output_low"), values(output_high, "output_high")};
}

void set_limits(Closure& closure, const std::string& inputs, const std::string& of_closure, double margin,
                double fade, const py::object& input_low, const py::object& input_high,
                const py::object& output_low, const py::object& output_high) {
  closure.set_limits(runtime::Limits{limit_from(inputs, "inputs", 2), limit_from(of_closure, "closure", 4),
                                     margin, fade,
                                     range_from(input_low, input_high, output_low, output_high)});
}

/// None: all; an array of bool: those that are true; else a list of columns, in ascending order.
void set_active(Closure& closure, const py::object& columns) {
  const auto claimed = closure.claim();
  runtime::State& state = closure.remembered();
  if (columns.is_none()) return state.set_all_active();
  const py::array given = py::array::ensure(columns);
  if (given && given.dtype().kind() == 'b') {
    const auto mask = py::array_t<unsigned char, py::array::c_style | py::array::forcecast>::ensure(given);
    return state.set_mask({mask.data(), static_cast<std::size_t>(mask.size())});
  }
  try {
    state.set_active(columns.cast<std::vector<std::size_t>>());
  } catch (const py::cast_error&) {
    throw UsageError("columns is {}, expected a list of columns from 0, an array of bool, or None",
                     py::repr(columns).cast<std::string>());
  }
}

void set_fallback(Closure& closure, const py::object& fallback) {
  const auto claimed = closure.claim();
  closure.remembered().set_fallback(view(numbers(fallback, "fallback")));
}

/// y where it lies, an array for each variable; so is the closure, in `out` or in arrays of its own.
py::object step_fields(Closure& closure, const py::object& y, const py::object& out) {
  const HostFields in(y, closure.model().inputs(), "y");
  const HostFields to = out.is_none() ? HostFields(in, closure.model().outputs())
                                      : HostFields(out, closure.model().outputs(), "out", true);
  in.expect_like(to, "out");
  const auto claimed = closure.claim();
  runtime::State& state = closure.state_for(in.columns());
  if (in.single())
    state.step_fields(in.extents, in.first<const float>(), in.strides, to.first<float>(), to.strides);
  else
    state.step_fields(in.extents, in.first<const double>(), in.strides, to.first<double>(), to.strides);
  return to.value();
}

/// Of all columns: an array (columns,) for each number.
py::dict diagnostics(Closure& closure) {
  const auto claimed = closure.claim();
  const runtime::State& state = closure.remembered();
  std::vector<runtime::Diagnostics> all;
  for (std::size_t j = 0; j < state.columns(); ++j) all.push_back(state.diagnostics(j));
  py::dict result;
  const auto add = [&](const char* name, auto member) {
    using Number = std::remove_cvref_t<decltype(all[0].*member)>;
    py::array_t<Number> array(static_cast<py::ssize_t>(all.size()));
    for (std::size_t j = 0; j < all.size(); ++j) array.mutable_data()[j] = all[j].*member;
    result[name] = array;
  };
  add("steps", &runtime::Diagnostics::steps);
  add("inputs_outside", &runtime::Diagnostics::inputs_outside);
  add("closure_outside", &runtime::Diagnostics::closure_outside);
  add("changed", &runtime::Diagnostics::changed);
  add("replaced", &runtime::Diagnostics::replaced);
  add("input_excess", &runtime::Diagnostics::input_excess);
  add("closure_excess", &runtime::Diagnostics::closure_excess);
  add("distance", &runtime::Diagnostics::distance);
  return result;
}

/// A mac_coupler over the memory of a closure, for as long as the closure has that memory.
class Coupler {
 public:
  Coupler(std::shared_ptr<Closure> closure, double host_step, std::size_t columns,
          const std::optional<std::string>& hold, std::optional<double> closure_step)
      : closure_(std::move(closure)) {
    const auto claimed = closure_->claim();
    runtime::State& state = closure_->state_for(columns);
    const runtime::Hold held = hold_by_name(hold ? *hold : std::string(to_string(closure_->model().hold())));
    mac_coupler* created = nullptr;
    runtime::detail::call(mac_coupler_create, state.get(), host_step, closure_step.value_or(0),
                          static_cast<mac_hold>(held), &created);
    handle_.reset(created);
    columns_ = columns;
    generation_ = closure_->generation();
  }

  std::size_t host_steps() const { return mac_coupler_host_steps(handle_.get()); }
  std::size_t closure_steps() const { return mac_coupler_closure_steps(handle_.get()); }

  void begin(const py::object& y) {
    const Array in = numbers(y, "y");
    const std::size_t inputs = closure_->model().inputs();
    one_ = in.ndim() == 1;
    if ((!one_ && in.ndim() != 2) || static_cast<std::size_t>(in.size()) != columns_ * inputs ||
        static_cast<std::size_t>(in.shape(in.ndim() - 1)) != inputs)
      throw UsageError("y has shape {}, expected ({}, {})", shape_text(in), columns_, inputs);
    const auto claimed = claim();
    runtime::detail::call(mac_coupler_begin, handle_.get(), in.data());
  }
  Array closure(double fraction) const {
    const auto outputs = static_cast<py::ssize_t>(closure_->model().outputs());
    Array out = one_ ? make_array({outputs}) : make_array({static_cast<py::ssize_t>(columns_), outputs});
    const auto claimed = claim();
    runtime::detail::call(mac_coupler_closure, static_cast<const mac_coupler*>(handle_.get()), fraction,
                          out.mutable_data());
    return out;
  }
  void begin_fields(const py::object& y) {
    const HostFields in(y, closure_->model().inputs(), "y");
    const auto claimed = claim();
    if (in.single())
      runtime::detail::call(mac_coupler_begin_fields_float, handle_.get(), in.extents.data(),
                            in.first<const float>().data(), in.strides.data());
    else
      runtime::detail::call(mac_coupler_begin_fields, handle_.get(), in.extents.data(),
                            in.first<const double>().data(), in.strides.data());
  }
  py::object closure_fields(double fraction, const py::object& out) const {
    const HostFields to(out, closure_->model().outputs(), "out", true);
    const auto claimed = claim();
    if (to.single())
      runtime::detail::call(mac_coupler_closure_fields_float, handle_.get(), fraction, to.extents.data(),
                            to.first<float>().data(), to.strides.data());
    else
      runtime::detail::call(mac_coupler_closure_fields, handle_.get(), fraction, to.extents.data(),
                            to.first<double>().data(), to.strides.data());
    return to.value();
  }
  py::array_t<double> save() const {
    const auto claimed = claim();
    py::array_t<double> numbers(static_cast<py::ssize_t>(mac_coupler_numbers(handle_.get())));
    runtime::detail::call(mac_coupler_save, static_cast<const mac_coupler*>(handle_.get()),
                          numbers.mutable_data());
    return numbers;
  }
  void restore(const py::object& numbers) {
    const Array given = python::numbers(numbers, "state");
    if (static_cast<std::size_t>(given.size()) != mac_coupler_numbers(handle_.get()))
      throw UsageError("the saved coupler has {} numbers, expected {}", given.size(),
                       mac_coupler_numbers(handle_.get()));
    const auto claimed = claim();
    runtime::detail::call(mac_coupler_restore, handle_.get(), given.data());
  }

 private:
  std::unique_lock<std::mutex> claim() const {
    auto claimed = closure_->claim();
    if (closure_->generation() != generation_)
      throw UsageError("{}: has been reset since the coupler was made: make another one", closure_->name());
    return claimed;
  }
  struct Free {
    void operator()(mac_coupler* coupler) const { mac_coupler_free(coupler); }
  };

  std::shared_ptr<Closure> closure_;
  std::unique_ptr<mac_coupler, Free> handle_;
  std::size_t columns_ = 0;
  std::uint64_t generation_ = 0;
  bool one_ = false;  // y was (inputs,)
};

}  // namespace

py::object limits_as_dict(const std::optional<runtime::Limits>& limits) {
  if (!limits) return py::none();
  py::dict result;
  if (limits->range) result = dict_of(*limits->range);
  result["inputs"] = name_of(limits->inputs);
  result["closure"] = name_of(limits->closure);
  result["margin"] = limits->margin;
  result["fade"] = limits->fade;
  return result;
}

std::optional<runtime::Limits> limits_from_dict(const py::object& value) {
  if (value.is_none()) return std::nullopt;
  const auto dict = value.cast<py::dict>();
  const auto at = [&](const char* key) { return dict.contains(key) ? py::object(dict[key]) : py::none(); };
  return runtime::Limits{limit_from(dict["inputs"].cast<std::string>(), "inputs", 2),
                         limit_from(dict["closure"].cast<std::string>(), "closure", 4),
                         dict["margin"].cast<double>(), dict["fade"].cast<double>(),
                         range_from(at("input_low"), at("input_high"), at("output_low"), at("output_high"))};
}

void bind_hosts(py::module_& module) {
  py::class_<Closure, std::shared_ptr<Closure>>(module.attr("Closure"))
      .def("step_fields", &step_fields, py::arg("y"), py::arg("out") = py::none(),
           "A step of columns on a grid, where the host's arrays lie: y has an array for each input, all of "
           "one shape, strides and precision, such as field[variable, z, y, x] or a list of views. The "
           "closure "
           "comes in `out`, arrays of that grid, or in a new array (outputs, ...).")
      .def("set_active", &set_active, py::arg("columns"),
           "Columns that take part in steps until they are chosen anew: a list in ascending order, an array "
           "of "
           "bool, or None for all. The others keep everything; a step gives NaN for them.")
      .def_property_readonly(
          "active",
          [](Closure& closure) { return closure.columns() == 0 ? 0 : closure.remembered().active(); },
          "How many columns take part in steps.")
      .def("set_limits", &set_limits, py::arg("inputs") = "count", py::arg("closure") = "count",
           py::arg("margin") = 0.0, py::arg("fade") = 1.0, py::kw_only(), py::arg("input_low") = py::none(),
           py::arg("input_high") = py::none(), py::arg("output_low") = py::none(),
           py::arg("output_high") = py::none(),
           "From now on steps compare inputs and closures with the range of the training data, or with the "
           "one "
           "given, and count what is outside (\"count\"), clip it (\"clip\"), scale the closure back "
           "(\"scale\"), or "
           "fade it to the fallback (\"fade\").")
      .def(
          "clear_limits", [](Closure& closure) { closure.set_limits(std::nullopt); }, "No limits.")
      .def_property_readonly(
          "limits", [](const Closure& closure) { return limits_as_dict(closure.limits()); },
          "The arguments of set_limits; None without limits.")
      .def("set_fallback", &set_fallback, py::arg("fallback"),
           "What a fading closure fades to, (columns, outputs), from the next step on; at first zero.")
      .def("diagnostics", &diagnostics,
           "What happened to every column since limits were set: arrays (columns,) by name.")
      .def_property_readonly(
          "training_range",
          [](const Closure& closure) -> py::object {
            const auto range = closure.model().training_range();
            return range ? py::object(dict_of(*range)) : py::none();
          },
          "Least and largest value of every input and output in training; None where the file does not say.");
  py::class_<Coupler>(
      module, "Coupler",
      "Steps a closure for a host whose step divides the closure step, or is a multiple of it.")
      .def(py::init<std::shared_ptr<Closure>, double, std::size_t, const std::optional<std::string>&,
                    std::optional<double>>(),
           py::arg("closure"), py::arg("host_step"), py::arg("columns") = 1, py::arg("hold") = py::none(),
           py::arg("closure_step") = py::none(),
           "Over the closure's memory. The hold, \"zero\" or \"linear\", and the closure step are those of "
           "the model "
           "where not given.")
      .def("begin", &Coupler::begin, py::arg("y"), "A host step begins at y, (inputs,) or (columns, inputs).")
      .def("closure", &Coupler::closure, py::arg("fraction"),
           "The closure at a fraction of that host step, 0 its start and 1 its end.")
      .def("begin_fields", &Coupler::begin_fields, py::arg("y"),
           "A host step begins at y, arrays as those of Closure.step_fields.")
      .def("closure_fields", &Coupler::closure_fields, py::arg("fraction"), py::arg("out"),
           "The closure at a fraction of that host step, into arrays as those of Closure.step_fields.")
      .def_property("state", &Coupler::save, &Coupler::restore,
                    "An array of numbers that belongs in a restart file beside the closure's state.")
      .def_property_readonly("host_steps", &Coupler::host_steps, "Host steps in a closure step.")
      .def_property_readonly("closure_steps", &Coupler::closure_steps, "Closure steps in a host step.");
}

}  // namespace mac::python
