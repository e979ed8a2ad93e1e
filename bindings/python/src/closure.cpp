#include "closure.hpp"

#include <cstring>
#include <limits>

namespace mac::python {

namespace {

constexpr std::size_t worth_releasing = 8;  // columns: below, a step is shorter than a quarrel over the GIL

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string_view text_of(const py::buffer_info& info, const std::string& name) {
  if (info.itemsize != 1 || info.ndim != 1 || info.strides[0] != 1)
    throw UsageError("{}: a saved state is bytes, or an array of bytes (uint8)", name);
  return {static_cast<const char*>(info.ptr), static_cast<std::size_t>(info.size)};
}

/// Releases the GIL where that pays.
class MaybeRelease {
 public:
  explicit MaybeRelease(bool release) {
    if (release) release_.emplace();
  }

 private:
  std::optional<py::gil_scoped_release> release_;
};

}  // namespace

runtime::Hold hold_by_name(const std::string& name) {
  const Hold hold = hold_from(name);
  if (hold == Hold::stage) throw UsageError("the hold is \"stage\": within a step there are zero and linear");
  return hold;
}

Closure::Closure(std::string file_bytes, const std::string& name, const std::optional<std::string>& precision)
    : bytes_(std::make_shared<const std::string>(std::move(file_bytes))),
      name_(name),
      model_(std::make_shared<const runtime::Model>(
          as_bytes(*bytes_), name, precision ? std::optional(precision_from(*precision)) : std::nullopt)) {}

Closure::Closure(const Closure& other)
    : bytes_(other.bytes_), name_(other.name_), model_(other.model_), verdict_(other.verdict_) {
  const auto claimed = other.claim();
  batch_ = other.batch_;
  within_step_ = other.within_step_;
  limits_ = other.limits_;
  if (other.state_) state_.emplace(*other.state_);
}

std::string Closure::precision() const { return std::string(to_string(model_->precision())); }

std::unique_lock<std::mutex> Closure::claim() const {
  std::unique_lock lock(busy_, std::try_to_lock);
  if (!lock)
    throw UsageError("{}: another thread is stepping this closure; give each thread a clone() of its own",
                     name_);
  return lock;
}

void Closure::make_state(std::size_t columns) {
  runtime::State made(*model_, columns);
  if (limits_) made.set_limits(*limits_);
  state_.emplace(std::move(made));
  within_step_ = false;
  ++generation_;
}

void Closure::reset(std::optional<std::size_t> columns) {
  const auto claimed = claim();
  state_.reset();
  ++generation_;
  if (columns) make_state(*columns);
}

runtime::State& Closure::state_for(std::size_t columns) {
  if (!state_) make_state(columns);
  if (state_->columns() != columns)
    throw UsageError("{}: remembers {} columns, {} were given; reset() forgets them", name_,
                     state_->columns(), columns);
  return *state_;
}

runtime::State& Closure::whole_state_for(std::size_t columns) {
  runtime::State& state = state_for(columns);
  if (state.active() != columns)
    throw UsageError("{}: {} of {} columns are active; set_active(None) lets all take part", name_,
                     state.active(), columns);
  return state;
}

runtime::State& Closure::remembered() {
  if (!state_) throw UsageError("{}: has no columns yet; a step or reset(columns) makes them", name_);
  return *state_;
}

void Closure::set_limits(std::optional<runtime::Limits> limits) {
  const auto claimed = claim();
  if (limits) {
    if (state_)
      state_->set_limits(*limits);
    else
      runtime::State(*model_, 1).set_limits(*limits);  // what is wrong with them is said now
  } else if (state_) {
    state_->clear_limits();
  }
  limits_ = std::move(limits);
}

/// Columns (8 bytes, little-endian), then what the runtime saves. Empty: at rest, for any number of columns.
py::bytes Closure::save() const {
  const auto claimed = claim();
  if (!state_) return py::bytes();
  const std::uint64_t columns = state_->columns();
  std::string saved(sizeof columns + state_->saved_size(), '\0');
  std::memcpy(saved.data(), &columns, sizeof columns);
  state_->save(std::as_writable_bytes(std::span(saved)).subspan(sizeof columns));
  return py::bytes(saved);
}

void Closure::restore(const py::buffer& saved) {
  const auto claimed = claim();
  const py::buffer_info info = saved.request();
  const std::string_view text = text_of(info, name_);
  if (text.empty()) {
    state_.reset();
    ++generation_;
    return;
  }
  std::uint64_t columns = 0;
  if (text.size() < sizeof columns) throw UsageError("{}: the saved state is cut short", name_);
  std::memcpy(&columns, text.data(), sizeof columns);
  // A damaged count must not ask for the memory it names: a column takes more than a byte.
  if (columns == 0 || columns > text.size()) throw UsageError("{}: the saved state is damaged", name_);
  const auto memory = as_bytes(text.substr(sizeof columns));
  const auto check_size = [&](const runtime::State& state) {
    if (memory.size() > state.saved_size())
      throw UsageError("{}: the saved state has {} bytes, its {} columns take {}", name_, text.size(),
                       columns, sizeof columns + state.saved_size());
  };
  within_step_ = false;
  if (state_ && state_->columns() == columns) {
    check_size(*state_);
    return state_->restore(memory);  // limits and resting columns stay
  }
  runtime::State restored(*model_, columns);
  check_size(restored);
  restored.restore(memory);
  make_state(columns);
  state_->copy(restored);
}

py::bytes Closure::save_columns(const std::vector<std::size_t>& columns) {
  const auto claimed = claim();
  const std::vector<std::byte> saved = remembered().save_columns(columns);
  return {reinterpret_cast<const char*>(saved.data()), saved.size()};
}

void Closure::restore_columns(const py::buffer& saved, const std::vector<std::size_t>& from,
                              const std::vector<std::size_t>& to) {
  const auto claimed = claim();
  const py::buffer_info info = saved.request();
  remembered().restore_columns(as_bytes(text_of(info, name_)), from, to);
}

void Closure::reset_columns(const std::vector<std::size_t>& columns) {
  const auto claimed = claim();
  remembered().reset_columns(columns);
}

void Closure::seed(std::uint64_t seed, const std::vector<std::uint64_t>& streams) {
  const auto claimed = claim();
  remembered().seed(seed, streams);
}

void Closure::set_noise(bool on) {
  const auto claimed = claim();
  remembered().set_noise(on);
}

void Closure::copy_columns(Closure& other, const std::vector<std::size_t>& from,
                           const std::vector<std::size_t>& to) {
  const auto claimed = claim();
  if (&other == this) return remembered().copy_columns(remembered(), from, to);
  const auto also_claimed = other.claim();
  remembered().copy_columns(other.remembered(), from, to);
}

Array Closure::step(const Array& y) {
  const auto inputs = static_cast<py::ssize_t>(model_->inputs()),
             outputs = static_cast<py::ssize_t>(model_->outputs());
  const bool one = y.ndim() == 1;
  if ((!one && y.ndim() != 2) || y.shape(y.ndim() - 1) != inputs)
    throw UsageError("y has shape {}, expected ({},) or (columns, {})", shape_text(y), inputs, inputs);
  const auto columns = static_cast<std::size_t>(one ? 1 : y.shape(0));
  const auto claimed = claim();
  runtime::State& state = state_for(columns);
  Array closure = one ? make_array({outputs}) : make_array({y.shape(0), outputs});
  const auto out = std::span(closure.mutable_data(), static_cast<std::size_t>(closure.size()));
  if (state.active() != columns) std::ranges::fill(out, std::numeric_limits<double>::quiet_NaN());
  const auto in = view(y);
  const MaybeRelease release(columns >= worth_releasing);
  state.step(in, out);
  batch_ = !one;
  return closure;
}

Array Closure::at(double fraction, const std::optional<std::string>& hold) const {
  const auto claimed = claim();
  if (!state_ || state_->steps() == 0) throw UsageError("{}: has not taken a step yet", name_);
  Array closure =
      make_array({static_cast<py::ssize_t>(state_->columns()), static_cast<py::ssize_t>(model_->outputs())});
  const auto out = std::span(closure.mutable_data(), static_cast<std::size_t>(closure.size()));
  state_->closure_at(hold ? hold_by_name(*hold) : model_->hold(), fraction, out);
  if (batch_ || state_->columns() > 1) return closure;
  return Array(closure.reshape({static_cast<py::ssize_t>(model_->outputs())}));
}

Array Closure::sequence(const Array& y) {
  const auto inputs = static_cast<py::ssize_t>(model_->inputs()),
             outputs = static_cast<py::ssize_t>(model_->outputs());
  const bool one = y.ndim() == 2;
  if ((!one && y.ndim() != 3) || y.shape(y.ndim() - 1) != inputs)
    throw UsageError("y has shape {}, expected (times, {}) or (columns, times, {})", shape_text(y), inputs,
                     inputs);
  const auto columns = static_cast<std::size_t>(one ? 1 : y.shape(0));
  const auto times = static_cast<std::size_t>(y.shape(y.ndim() - 2));
  const auto claimed = claim();
  runtime::State& state = state_for(columns);
  Array closure = one ? make_array({y.shape(0), outputs}) : make_array({y.shape(0), y.shape(1), outputs});
  const double* in = y.data();
  double* out = closure.mutable_data();
  if (state.active() != columns) std::fill_n(out, closure.size(), std::numeric_limits<double>::quiet_NaN());
  const py::gil_scoped_release release;
  const InterruptScope interrupts;
  const auto width = static_cast<std::ptrdiff_t>(times);
  for (std::size_t t = 0; t < times; ++t) {
    state.step(in + static_cast<std::ptrdiff_t>(t) * inputs, {1, width * inputs},
               out + static_cast<std::ptrdiff_t>(t) * outputs, {1, width * outputs});
    if (t % 64 == 0) throw_if_interrupted();
  }
  return closure;
}

namespace {

std::vector<std::string> names(std::size_t count, const auto& name) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(name(i));
  if (!all.empty() && all.front().empty()) all.clear();
  return all;
}

py::dict normalisation(const Closure& closure) {
  const runtime::Normalisation n = closure.model().normalisation();
  const auto array = [](const std::vector<double>& values) {
    return py::array_t<double>(static_cast<py::ssize_t>(values.size()), values.data());
  };
  py::dict result;
  result["input_mean"] = array(n.input_mean);
  result["input_scale"] = array(n.input_scale);
  result["output_mean"] = array(n.output_mean);
  result["output_scale"] = array(n.output_scale);
  return result;
}

const char* hold_name(const Closure& closure) { return to_string(closure.model().hold()).data(); }

const char* target_name(const Closure& closure) { return to_string(closure.model().target()).data(); }

std::string represent(const Closure& closure) {
  const runtime::Model& model = closure.model();
  return fmt::format(
      "<mac.Closure {}: {} of {} parameters, {} variables -> {} closures, {} columns, {} steps>",
      closure.name(), model.kind(), model.parameters(), model.inputs(), model.outputs(), closure.columns(),
      closure.steps());
}

}  // namespace

void bind_closure(py::module_& module) {
  py::class_<Closure, std::shared_ptr<Closure>>(
      module, "Closure",
      "A trained closure network with the memory of the columns it steps. mac.load() opens one.")
      .def(py::init<std::string, const std::string&, const std::optional<std::string>&>(),
           py::arg("file_bytes"), py::arg("name") = "model", py::arg("precision") = py::none(),
           "From the bytes of a .safetensors file; `name` stands for it in messages. The network computes in "
           "precision, \"float32\" or \"float64\", by default in what the file stores.")
      .def(
          "step", [](Closure& closure, const py::object& y) { return closure.step(numbers(y, "y")); },
          py::arg("y"),
          "The closure at y, (inputs,) or (columns, inputs), in physical units; the memory goes one closure "
          "step on.")
      .def("at", &Closure::at, py::arg("fraction"), py::arg("hold") = py::none(),
           "The closure at a fraction of the step that the last step() opened, as a Runge-Kutta stage needs "
           "it: \"zero\" or \"linear\" hold, by default as the model was trained.")
      .def(
          "sequence", [](Closure& closure, const py::object& y) { return closure.sequence(numbers(y, "y")); },
          py::arg("y"),
          "The closure along recorded states (times, inputs) or (columns, times, inputs), step after step.")
      .def("reset", &Closure::reset, py::arg("columns") = py::none(),
           "Forgets everything. The next step may have any number of columns, or the given one.")
      .def("save_columns", &Closure::save_columns, py::arg("columns"),
           "The memory of some columns as bytes, for any columns of any closure of this model.")
      .def("restore_columns", &Closure::restore_columns, py::arg("saved"), py::arg("saved_columns"),
           py::arg("columns"),
           "Columns saved_columns[k] of what was saved become columns[k] of the memory, bit for bit.")
      .def("seed", &Closure::seed, py::arg("seed"), py::arg("streams") = std::vector<std::uint64_t>{},
           "Seed of a stochastic closure's noise. Column j reads stream streams[j], by default j; the same "
           "seed, "
           "stream and number of steps give the same noise everywhere.")
      .def("set_noise", &Closure::set_noise, py::arg("on"),
           "False: a stochastic closure runs without its noise.")
      .def_property_readonly("noise", &Closure::noise,
                             "Random numbers that a column reads at every step; 0: deterministic.")
      .def("reset_columns", &Closure::reset_columns, py::arg("columns"), "These columns forget everything.")
      .def("copy_columns", &Closure::copy_columns, py::arg("other"), py::arg("other_columns"),
           py::arg("columns"), "Columns other_columns[k] of another closure become columns[k] of this one.")
      .def(
          "clone", [](const Closure& closure) { return std::make_shared<Closure>(closure); },
          "The same model with a copy of the memory.")
      .def("__copy__", [](const Closure& closure) { return std::make_shared<Closure>(closure); })
      .def("__deepcopy__",
           [](const Closure& closure, const py::dict&) { return std::make_shared<Closure>(closure); })
      .def_property(
          "state", &Closure::save, &Closure::restore,
          "The memory as bytes, to save beside y and to set again: the next step is the same to the last "
          "bit. States of another model or precision are refused.")
      .def(py::pickle(
          [](const Closure& closure) {
            return py::make_tuple(closure.file_bytes(), closure.name(), closure.precision(), closure.save(),
                                  limits_as_dict(closure.limits()));
          },
          [](const py::tuple& saved) {
            if (saved.size() != 4 && saved.size() != 5) throw UsageError("this is no pickled closure");
            auto closure = std::make_shared<Closure>(
                saved[0].cast<std::string>(), saved[1].cast<std::string>(), saved[2].cast<std::string>());
            if (saved.size() == 5) closure->set_limits(limits_from_dict(saved[4]));  // older ones have none
            closure->restore(saved[3].cast<py::buffer>());
            return closure;
          }))
      .def_property_readonly("columns", &Closure::columns, "Columns remembered; 0 before the first step.")
      .def_property_readonly("steps", &Closure::steps, "Steps taken since the start or the last reset.")
      .def_property_readonly("name", &Closure::name)
      .def_property_readonly("precision", &Closure::precision)
      .def_property_readonly("file_bytes", &Closure::file_bytes, "The model file.")
      .def_property_readonly("inputs", [](const Closure& c) { return c.model().inputs(); })
      .def_property_readonly("outputs", [](const Closure& c) { return c.model().outputs(); })
      .def_property_readonly("parameters", [](const Closure& c) { return c.model().parameters(); })
      .def_property_readonly(
          "kind", [](const Closure& c) { return c.model().kind(); },
          "the kind of its layers: mamba, gru, ...")
      .def_property_readonly("system", [](const Closure& c) { return c.model().system(); })
      .def_property_readonly("input_names",
                             [](const Closure& c) {
                               return names(c.model().inputs(),
                                            [&](std::size_t i) { return c.model().input_name(i); });
                             })
      .def_property_readonly("output_names",
                             [](const Closure& c) {
                               return names(c.model().outputs(),
                                            [&](std::size_t i) { return c.model().output_name(i); });
                             })
      .def_property_readonly(
          "closure_step", [](const Closure& c) { return c.model().closure_step(); },
          "Time between two steps, None where the file does not say.")
      .def_property_readonly("hold", &hold_name, "How it is coupled: zero, linear or stage.")
      .def_property_readonly("target", &target_name,
                             "What it predicts: the closure at an instant, or its mean.")
      .def_property_readonly(
          "closure_targets",
          [](const Closure& c) {
            const std::vector<std::size_t> targets = c.model().closure_targets();
            return targets.empty() ? std::nullopt : std::optional(targets);
          },
          "Component j is added to equation closure_targets[j]; None where the file does not say.")
      .def_property_readonly("normalisation", &normalisation)
      .def_property("verdict", &Closure::verdict, &Closure::set_verdict,
                    "The verdict of the training, where mac.fit has just made the closure; else empty.")
      .def(
          "metadata", [](const Closure& c, const std::string& key) { return c.model().metadata(key); },
          py::arg("key"), "A metadata entry of the file, None where it has none.")
      .def("__repr__", &represent);
}

}  // namespace mac::python
