// MAC's C++ interface to a trained closure inside a simulation: RAII and spans over mac/mac.h. Header-only;
// link mac::runtime.
//
//   mac::runtime::Model model("closure.safetensors");
//   mac::runtime::State state = model.state();          // one column
//   state.step(y, closure);                             // y (inputs) -> closure (outputs), physical units
//
// and, with the time integration included,
//
//   mac::runtime::CoupledStepper stepper(model, dt, [](auto y, auto dydt) { ... });
//   stepper.step(y);                                    // dy/dt = R(y) + C over one closure step
//
// Every failure is a mac::runtime::Error with the C interface's code and sentence.
#pragma once

#include <mac/mac.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mac/held_rk4.hpp>
#include <mac/precision.hpp>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace mac::runtime {

class Error : public std::runtime_error {
 public:
  Error(mac_status status, const std::string& sentence) : std::runtime_error(sentence), status_(status) {}
  mac_status status() const { return status_; }

 private:
  mac_status status_;
};

namespace detail {

/// Calls a C function with an error structure behind its arguments; throws what it reports.
template <class Function, class... Args>
void call(Function function, Args... args) {
  mac_error error;
  if (const mac_status status = function(args..., &error); status != MAC_OK)
    throw Error(status, error.message);
}

inline void expect_size(std::string_view what, std::size_t size, std::size_t expected) {
  if (size != expected)
    throw Error(MAC_INVALID_ARGUMENT, std::string(what) + " has " + std::to_string(size) +
                                          " elements: expected " + std::to_string(expected));
}

struct Close {
  void operator()(mac_model* model) const { mac_model_close(model); }
  void operator()(mac_state* state) const { mac_state_free(state); }
};

}  // namespace detail

using mac::Precision;
static_assert(static_cast<int>(Precision::float32) == MAC_FLOAT32 &&
              static_cast<int>(Precision::float64) == MAC_FLOAT64);
enum class Hold { zero = MAC_HOLD_ZERO, linear = MAC_HOLD_LINEAR, stage = MAC_HOLD_STAGE };
enum class Target { instant = MAC_TARGET_INSTANT, mean = MAC_TARGET_MEAN };

/// Distances in elements between components of a column, and between columns.
struct Stride {
  std::ptrdiff_t component, column;
};

struct Normalisation {
  std::vector<double> input_mean, input_scale;    // (inputs)
  std::vector<double> output_mean, output_scale;  // (outputs)
};

class State;

/// A closure network; immutable, shared by any number of threads. Copies share the weights. An object that
/// was moved from answers queries with 0 and "", and throws on the rest.
class Model {
 public:
  /// The network computes in the precision that its file stores, unless another one is given.
  explicit Model(const std::string& path, std::optional<Precision> precision = std::nullopt) {
    mac_model* opened = nullptr;
    detail::call(mac_model_open, path.c_str(), c_precision(precision), &opened);
    handle_.reset(opened);
  }
  /// From a file's bytes; `name` stands for the file in messages.
  Model(std::span<const std::byte> bytes, const std::string& name,
        std::optional<Precision> precision = std::nullopt) {
    mac_model* opened = nullptr;
    detail::call(mac_model_open_memory, static_cast<const void*>(bytes.data()), bytes.size(), name.c_str(),
                 c_precision(precision), &opened);
    handle_.reset(opened);
  }
  Model(const Model& other) {
    mac_model* clone = nullptr;
    detail::call(mac_model_clone, other.get(), &clone);
    handle_.reset(clone);
  }
  Model& operator=(const Model& other) { return *this = Model(other); }
  Model(Model&&) noexcept = default;
  Model& operator=(Model&&) noexcept = default;
  ~Model() = default;

  std::size_t inputs() const { return mac_model_inputs(get()); }
  std::size_t outputs() const { return mac_model_outputs(get()); }
  std::size_t parameters() const { return mac_model_parameters(get()); }
  Precision precision() const { return static_cast<Precision>(mac_model_precision(get())); }
  std::string kind() const { return mac_model_kind(get()); }
  std::string system() const { return mac_model_system(get()); }
  std::string input_name(std::size_t component) const { return mac_model_input_name(get(), component); }
  std::string output_name(std::size_t component) const { return mac_model_output_name(get(), component); }
  /// Time between two steps, where the file says.
  std::optional<double> closure_step() const {
    const double step = mac_model_closure_step(get());
    return step > 0 ? std::optional(step) : std::nullopt;
  }
  /// The equation that each closure component is added to, as mac_model_closure_target tells. Empty where
  /// that is not known.
  std::vector<std::size_t> closure_targets() const {
    std::vector<std::size_t> targets;
    for (std::size_t j = 0; j < outputs(); ++j) {
      const std::ptrdiff_t target = mac_model_closure_target(get(), j);
      if (target < 0) return {};
      targets.push_back(static_cast<std::size_t>(target));
    }
    return targets;
  }
  Hold hold() const { return static_cast<Hold>(mac_model_hold(get())); }
  Target target() const { return static_cast<Target>(mac_model_target(get())); }
  std::optional<std::string> metadata(const std::string& key) const {
    const char* text = mac_model_metadata(get(), key.c_str());
    return text ? std::optional<std::string>(text) : std::nullopt;
  }
  std::uint64_t id() const { return mac_model_id(get()); }
  Normalisation normalisation() const {
    Normalisation n{std::vector<double>(inputs()), std::vector<double>(inputs()),
                    std::vector<double>(outputs()), std::vector<double>(outputs())};
    detail::call(mac_model_normalisation, get(), n.input_mean.data(), n.input_scale.data(),
                 n.output_mean.data(), n.output_scale.data());
    return n;
  }

  /// The memory of `columns` columns, at rest.
  State state(std::size_t columns = 1) const;

  const mac_model* get() const { return handle_.get(); }

 private:
  static mac_precision c_precision(std::optional<Precision> precision) {
    return precision ? static_cast<mac_precision>(*precision) : MAC_PRECISION_OF_FILE;
  }

  std::unique_ptr<mac_model, detail::Close> handle_;
};

/// The memory of a batch of columns; keeps its model alive. Copying clones it.
class State {
 public:
  State(const Model& model, std::size_t columns) : inputs_(model.inputs()), outputs_(model.outputs()) {
    mac_state* created = nullptr;
    detail::call(mac_state_create, model.get(), columns, &created);
    handle_.reset(created);
  }
  State(const State& other) : inputs_(other.inputs_), outputs_(other.outputs_) {
    mac_state* clone = nullptr;
    detail::call(mac_state_clone, other.get(), &clone);
    handle_.reset(clone);
  }
  State& operator=(const State& other) { return *this = State(other); }
  State(State&&) noexcept = default;
  State& operator=(State&&) noexcept = default;
  ~State() = default;

  std::size_t columns() const { return mac_state_columns(get()); }
  std::size_t inputs() const { return inputs_; }
  std::size_t outputs() const { return outputs_; }
  std::uint64_t steps() const { return mac_state_steps(get()); }

  /// y (columns, inputs) -> closure (columns, outputs)
  void step(std::span<const double> y, std::span<double> closure) {
    check(y.size(), closure.size());
    detail::call(mac_step, get(), y.data(), closure.data());
  }
  void step(std::span<const float> y, std::span<float> closure) {
    check(y.size(), closure.size());
    detail::call(mac_step_float, get(), y.data(), closure.data());
  }
  /// Any layout: component i of column j is y[i*stride.component + j*stride.column].
  void step(const double* y, Stride y_stride, double* closure, Stride closure_stride) {
    detail::call(mac_step_strided, get(), y, y_stride.component, y_stride.column, closure,
                 closure_stride.component, closure_stride.column);
  }
  void step(const float* y, Stride y_stride, float* closure, Stride closure_stride) {
    detail::call(mac_step_strided_float, get(), y, y_stride.component, y_stride.column, closure,
                 closure_stride.component, closure_stride.column);
  }

  /// The closure (columns, outputs) at a fraction of the step that the last step() opened.
  void closure_at(Hold hold, double fraction, std::span<double> closure) const {
    detail::expect_size("closure", closure.size(), columns() * outputs_);
    detail::call(mac_closure_at, get(), static_cast<mac_hold>(hold), fraction, closure.data());
  }

  void reset() { detail::call(mac_state_reset, get()); }
  std::vector<std::byte> save() const {
    std::vector<std::byte> buffer(mac_state_bytes(get()));
    save(buffer);
    return buffer;
  }
  std::size_t saved_size() const { return mac_state_bytes(get()); }
  void save(std::span<std::byte> buffer) const {
    detail::call(mac_state_save, get(), static_cast<void*>(buffer.data()), buffer.size());
  }
  void restore(std::span<const std::byte> saved) {
    detail::call(mac_state_restore, get(), static_cast<const void*>(saved.data()), saved.size());
  }

  mac_state* get() const { return handle_.get(); }

 private:
  void check(std::size_t y_size, std::size_t closure_size) const {
    detail::expect_size("y", y_size, columns() * inputs_);
    detail::expect_size("closure", closure_size, columns() * outputs_);
  }

  std::size_t inputs_, outputs_;
  std::unique_ptr<mac_state, detail::Close> handle_;
};

inline State Model::state(std::size_t columns) const { return State(*this, columns); }

/// How a CoupledStepper couples; what is left empty is as the model says.
struct CouplingOptions {
  std::size_t columns = 1;
  std::optional<Hold> hold = std::nullopt;  // zero or linear
  std::vector<std::size_t> targets = {};    // closure component j is added to equation targets[j]
};

/// Advances a right-hand side together with the closure, by classical RK4 (mac/held_rk4.hpp): the arithmetic,
/// and so the bits, of `mac rollout`. Rhs is called as rhs(y, dydt) or rhs(t, y, dydt) with spans of one
/// column (inputs). dt is the model's closure step, where its file says. A step does not allocate.
template <class Rhs>
class CoupledStepper {
 public:
  CoupledStepper(const Model& model, double dt, Rhs rhs, const CouplingOptions& options = {})
      : state_(model, options.columns),
        dt_(dt),
        rhs_(std::move(rhs)),
        hold_(options.hold.value_or(model.hold())),
        mean_(model.target() == Target::mean),
        targets_(options.targets),
        closure_(options.columns * model.outputs()),
        previous_(closure_.size()),
        stage_(model.inputs()),
        rates_(held_rk4::stages * model.inputs()) {
    if (hold_ == Hold::stage)
      throw Error(MAC_INVALID_ARGUMENT, "a CoupledStepper has the holds zero and linear, not stage");
    if (!(dt > 0)) throw Error(MAC_INVALID_ARGUMENT, "dt is " + std::to_string(dt) + ": expected > 0");
    if (const auto step = model.closure_step(); step && std::abs(dt - *step) > 1e-9 * *step)
      throw Error(MAC_INVALID_ARGUMENT, "dt is " + std::to_string(dt) +
                                            ": the model was trained for a closure step of " +
                                            std::to_string(*step));
    if (targets_.empty()) targets_ = model.closure_targets();
    if (targets_.empty())
      throw Error(MAC_INVALID_ARGUMENT, "the model has " + std::to_string(model.outputs()) +
                                            " closure components for " + std::to_string(model.inputs()) +
                                            " variables: say in targets to which equation each belongs");
    detail::expect_size("targets", targets_.size(), model.outputs());
    for (const std::size_t target : targets_)
      if (target >= model.inputs())
        throw Error(MAC_INVALID_ARGUMENT, "closure target " + std::to_string(target) + " is beyond the " +
                                              std::to_string(model.inputs()) + " variables of a column");
  }

  /// y (columns, inputs) from t to t + dt.
  void step(std::span<double> y, double t = 0) {
    const std::size_t n = state_.inputs();
    state_.step(y, previous_);
    std::swap(closure_, previous_);
    for (std::size_t j = 0; j < state_.columns(); ++j) advance(j, t, y.subspan(j * n, n));
  }

  /// The closure (columns, outputs) of the last step.
  std::span<const double> closure() const { return closure_; }
  Hold hold() const { return hold_; }
  double dt() const { return dt_; }
  std::uint64_t steps() const { return state_.steps(); }

  // The memory, to save and restore beside y; a restored stepper goes on bit for bit.
  const State& state() const { return state_; }
  std::vector<std::byte> save() const { return state_.save(); }
  void restore(std::span<const std::byte> saved) {
    state_.restore(saved);
    if (state_.steps() > 0) state_.closure_at(Hold::zero, 0, closure_);
  }
  void reset() { state_.reset(); }

 private:
  void advance(std::size_t column, double t, std::span<double> y) {
    const std::size_t n = y.size(), outputs = state_.outputs();
    const double* closure = closure_.data() + column * outputs;
    const double* previous = previous_.data() + column * outputs;
    const bool line = hold_ == Hold::linear && state_.steps() > 1;
    const auto rate = [&](std::size_t i) { return std::span(rates_).subspan(i * n, n); };
    for (std::size_t i = 0; i < held_rk4::stages; ++i) {
      held_rk4::stage_state(i, n, dt_, y.data(), i == 0 ? nullptr : rate(i - 1).data(), stage_.data());
      evaluate(t + held_rk4::a(i) * dt_, stage_, rate(i));
      const double share = line ? held_rk4::share(held_rk4::a(i), mean_) : 0;
      for (std::size_t j = 0; j < outputs; ++j)
        rate(i)[targets_[j]] += held_rk4::line(closure[j], previous[j], share);
    }
    held_rk4::finish(n, dt_, {rate(0).data(), rate(1).data(), rate(2).data(), rate(3).data()}, y.data());
  }

  void evaluate(double t, std::span<const double> y, std::span<double> dydt) {
    if constexpr (std::is_invocable_v<Rhs&, double, std::span<const double>, std::span<double>>)
      rhs_(t, y, dydt);
    else
      rhs_(y, dydt);
  }

  State state_;
  double dt_;
  Rhs rhs_;
  Hold hold_;
  bool mean_;
  std::vector<std::size_t> targets_;
  std::vector<double> closure_, previous_;  // (columns, outputs)
  std::vector<double> stage_, rates_;       // (inputs), (stages, inputs)
};

}  // namespace mac::runtime
