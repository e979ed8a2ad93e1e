// A trained closure inside a simulation: the model, the memory of its columns, and recorded steps; RAII and spans over
// mac/mac.h. The way in is mac/runtime.hpp.
#pragma once

#include <mac/mac.h>

#include <algorithm>
#include <array>
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

/// a/b where that is a whole number, else 0.
inline std::size_t whole_ratio(double a, double b) {
  const double ratio = a / b, whole = std::round(ratio);
  if (!(whole >= 1 && whole < 1e9) || std::abs(ratio - whole) > 1e-9 * whole) return 0;
  return static_cast<std::size_t>(whole);
}

inline void expect_size(std::string_view what, std::size_t size, std::size_t expected) {
  if (size != expected)
    throw Error(MAC_INVALID_ARGUMENT, std::string(what) + " has " + std::to_string(size) +
                                          " elements: expected " + std::to_string(expected));
}

struct Close {
  void operator()(mac_model* model) const { mac_model_close(model); }
  void operator()(mac_state* state) const { mac_state_free(state); }
  void operator()(mac_tape* tape) const { mac_tape_free(tape); }
};

}  // namespace detail

using mac::Precision;
static_assert(static_cast<int>(Precision::float32) == MAC_FLOAT32 &&
              static_cast<int>(Precision::float64) == MAC_FLOAT64);
using mac::Hold;
static_assert(static_cast<int>(Hold::zero) == MAC_HOLD_ZERO &&
              static_cast<int>(Hold::linear) == MAC_HOLD_LINEAR &&
              static_cast<int>(Hold::stage) == MAC_HOLD_STAGE);
using mac::Target;
static_assert(static_cast<int>(Target::instant) == MAC_TARGET_INSTANT &&
              static_cast<int>(Target::mean) == MAC_TARGET_MEAN);

/// Distances in elements between components of a column, and between columns.
struct Stride {
  std::ptrdiff_t component, column;
};

struct Normalisation {
  std::vector<double> input_mean, input_scale;    // (inputs)
  std::vector<double> output_mean, output_scale;  // (outputs)
};

/// What happens to numbers outside of a range (mac/mac.h): inputs are counted or clipped, closures any of the four.
enum class Limit {
  count = MAC_LIMIT_COUNT,
  clip = MAC_LIMIT_CLIP,
  scale = MAC_LIMIT_SCALE,
  fade = MAC_LIMIT_FADE
};

/// Least and largest value of every variable.
struct Range {
  std::vector<double> input_low, input_high;    // (inputs)
  std::vector<double> output_low, output_high;  // (outputs)
};

struct Limits {
  Limit inputs = Limit::count, closure = Limit::count;
  double margin = 0;  // share of a range's width by which it is widened on either side
  double fade = 1;    // widths outside at which a fading closure is all fallback
  std::optional<Range> range = std::nullopt;  // that of the training data where none is given
};

using Diagnostics = mac_diagnostics;

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
  std::size_t noise() const { return mac_model_noise(get()); }  // numbers a step; 0: deterministic
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

  /// That of the training data, where the file says.
  std::optional<Range> training_range() const {
    if (!mac_model_has_training_range(get())) return std::nullopt;
    Range r{std::vector<double>(inputs()), std::vector<double>(inputs()), std::vector<double>(outputs()),
            std::vector<double>(outputs())};
    detail::call(mac_model_training_range, get(), r.input_low.data(), r.input_high.data(),
                 r.output_low.data(), r.output_high.data());
    return r;
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
  /// Steps taken since it was at rest, by the column with most, and by one.
  std::uint64_t steps() const { return mac_state_steps(get()); }
  std::uint64_t steps(std::size_t column) const { return mac_state_column_steps(get(), column); }

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
  /// Columns on a grid, and a pointer for each variable: that of the column at (a, b, c) lies
  /// a*strides[0] + b*strides[1] + c*strides[2] elements further.
  void step_fields(const std::array<std::size_t, 3>& extents, std::span<const double* const> y,
                   const std::array<std::ptrdiff_t, 3>& y_strides, std::span<double* const> closure,
                   const std::array<std::ptrdiff_t, 3>& closure_strides) {
    detail::expect_size("the list of fields y", y.size(), inputs_);
    detail::expect_size("the list of fields closure", closure.size(), outputs_);
    detail::call(mac_step_fields, get(), extents.data(), y.data(), y_strides.data(), closure.data(),
                 closure_strides.data());
  }
  void step_fields(const std::array<std::size_t, 3>& extents, std::span<const float* const> y,
                   const std::array<std::ptrdiff_t, 3>& y_strides, std::span<float* const> closure,
                   const std::array<std::ptrdiff_t, 3>& closure_strides) {
    detail::expect_size("the list of fields y", y.size(), inputs_);
    detail::expect_size("the list of fields closure", closure.size(), outputs_);
    detail::call(mac_step_fields_float, get(), extents.data(), y.data(), y_strides.data(), closure.data(),
                 closure_strides.data());
  }

  /// The closure (columns, outputs) at a fraction of the step that the last step() opened.
  void closure_at(Hold hold, double fraction, std::span<double> closure) const {
    detail::expect_size("closure", closure.size(), columns() * outputs_);
    detail::call(mac_closure_at, get(), static_cast<mac_hold>(hold), fraction, closure.data());
  }
  void closure_at(Hold hold, double fraction, double* closure, Stride stride) const {
    detail::call(mac_closure_at_strided, get(), static_cast<mac_hold>(hold), fraction, closure,
                 stride.component, stride.column);
  }
  void closure_at(Hold hold, double fraction, float* closure, Stride stride) const {
    detail::call(mac_closure_at_strided_float, get(), static_cast<mac_hold>(hold), fraction, closure,
                 stride.component, stride.column);
  }
  void closure_at_fields(Hold hold, double fraction, const std::array<std::size_t, 3>& extents,
                         std::span<double* const> closure,
                         const std::array<std::ptrdiff_t, 3>& strides) const {
    detail::expect_size("the list of fields closure", closure.size(), outputs_);
    detail::call(mac_closure_at_fields, get(), static_cast<mac_hold>(hold), fraction, extents.data(),
                 closure.data(), strides.data());
  }
  void closure_at_fields(Hold hold, double fraction, const std::array<std::size_t, 3>& extents,
                         std::span<float* const> closure,
                         const std::array<std::ptrdiff_t, 3>& strides) const {
    detail::expect_size("the list of fields closure", closure.size(), outputs_);
    detail::call(mac_closure_at_fields_float, get(), static_cast<mac_hold>(hold), fraction, extents.data(),
                 closure.data(), strides.data());
  }

  /// Becomes what `from`, a state of the same model and as many columns, is; does not allocate.
  void copy(const State& from) {
    detail::call(mac_state_copy, static_cast<const mac_state*>(from.get()), get());
  }
  void reset() { detail::call(mac_state_reset, get()); }
  /// Of the noise of a stochastic closure; streams as in mac_state_seed, none: the columns' numbers.
  void seed(std::uint64_t seed, std::span<const std::uint64_t> streams = {}) {
    if (!streams.empty()) detail::expect_size("streams", streams.size(), columns());
    detail::call(mac_state_seed, get(), seed, streams.empty() ? nullptr : streams.data());
  }
  void set_noise(bool on) { detail::call(mac_state_set_noise, get(), on ? 1 : 0); }
  /// Columns without a frame take that of y (columns, inputs), as mac_state_set_frame says.
  void set_frame(std::span<const double> y) {
    detail::expect_size("y", y.size(), columns() * inputs_);
    detail::call(mac_state_set_frame, get(), y.data());
  }
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

  // Columns come and go: lists of columns, counted from 0. Saved columns go to any columns of any state of the
  // model, bit for bit.
  std::vector<std::byte> save_columns(std::span<const std::size_t> columns) const {
    std::vector<std::byte> buffer(mac_state_columns_bytes(get(), columns.size()));
    detail::call(mac_state_save_columns, get(), columns.data(), columns.size(),
                 static_cast<void*>(buffer.data()), buffer.size());
    return buffer;
  }
  /// Columns from[k] of what was saved to columns to[k].
  void restore_columns(std::span<const std::byte> saved, std::span<const std::size_t> from,
                       std::span<const std::size_t> to) {
    detail::expect_size("the list of columns", to.size(), from.size());
    detail::call(mac_state_restore_columns, get(), static_cast<const void*>(saved.data()), saved.size(),
                 from.data(), to.data(), to.size());
  }
  void reset_columns(std::span<const std::size_t> columns) {
    detail::call(mac_state_reset_columns, get(), columns.data(), columns.size());
  }
  /// Columns from[k] of another state to columns to[k].
  void copy_columns(const State& other, std::span<const std::size_t> from, std::span<const std::size_t> to) {
    detail::expect_size("the list of columns", to.size(), from.size());
    detail::call(mac_state_copy_columns, static_cast<const mac_state*>(other.get()), from.data(), get(),
                 to.data(), to.size());
  }

  // Columns that rest cost nothing, keep everything, and their places in the arrays of a step are not touched.

  /// Columns that take part in steps until they are chosen anew: those listed, in ascending order.
  void set_active(std::span<const std::size_t> columns) {
    detail::call(mac_state_set_active, get(), columns.data(), columns.size());
  }
  /// Those whose number in the mask, (columns), is not 0.
  void set_mask(std::span<const unsigned char> mask) {
    detail::expect_size("the mask", mask.size(), columns());
    detail::call(mac_state_set_mask, get(), mask.data());
  }
  void set_all_active() {
    detail::call(mac_state_set_mask, get(), static_cast<const unsigned char*>(nullptr));
  }
  std::size_t active() const { return mac_state_active(get()); }

  // Guards: what leaves a range is counted, and clipped, scaled back or faded where asked to.

  void set_limits(const Limits& limits) {
    mac_limits c{static_cast<int>(limits.inputs),
                 static_cast<int>(limits.closure),
                 limits.margin,
                 limits.fade,
                 nullptr,
                 nullptr,
                 nullptr,
                 nullptr};
    if (limits.range) {
      detail::expect_size("input_low", limits.range->input_low.size(), inputs_);
      detail::expect_size("input_high", limits.range->input_high.size(), inputs_);
      detail::expect_size("output_low", limits.range->output_low.size(), outputs_);
      detail::expect_size("output_high", limits.range->output_high.size(), outputs_);
      c.input_low = limits.range->input_low.data();
      c.input_high = limits.range->input_high.data();
      c.output_low = limits.range->output_low.data();
      c.output_high = limits.range->output_high.data();
    }
    detail::call(mac_state_set_limits, get(), static_cast<const mac_limits*>(&c));
  }
  void clear_limits() { detail::call(mac_state_set_limits, get(), static_cast<const mac_limits*>(nullptr)); }
  /// What a fading closure fades to, (columns, outputs); at first zero.
  void set_fallback(std::span<const double> fallback) {
    detail::expect_size("fallback", fallback.size(), columns() * outputs_);
    detail::call(mac_state_set_fallback, get(), fallback.data());
  }
  /// What happened to a column since its limits were set.
  Diagnostics diagnostics(std::size_t column) const {
    Diagnostics of{};
    detail::call(mac_state_diagnostics, static_cast<const mac_state*>(get()), column, &of);
    return of;
  }

  // Derivatives of a step (mac/mac.h). Memories are (columns, memory_size) and are replaced in place; other
  // arrays are (columns, inputs) and (columns, outputs).

  /// Numbers in the memory of a column.
  std::size_t memory_size() const { return mac_state_memory_size(get()); }
  std::vector<double> memory() const {
    std::vector<double> numbers(columns() * memory_size());
    detail::call(mac_state_get_memory, static_cast<const mac_state*>(get()), numbers.data());
    return numbers;
  }
  void set_memory(std::span<const double> memory) {
    detail::expect_size("memory", memory.size(), columns() * memory_size());
    detail::call(mac_state_set_memory, get(), memory.data());
  }
  /// About the step that would come next at y: (dy, dmemory) -> (dclosure, dmemory after it)
  void step_tangent(std::span<const double> y, std::span<const double> dy, std::span<double> dmemory,
                    std::span<double> dclosure) {
    check(y.size(), dclosure.size());
    detail::expect_size("dy", dy.size(), y.size());
    detail::expect_size("dmemory", dmemory.size(), columns() * memory_size());
    detail::call(mac_step_tangent, get(), y.data(), dy.data(), dmemory.data(), dclosure.data());
  }
  /// The transpose: (gclosure, gmemory after the step) -> (gy, gmemory before it)
  void step_adjoint(std::span<const double> y, std::span<const double> gclosure, std::span<double> gmemory,
                    std::span<double> gy) {
    check(y.size(), gclosure.size());
    detail::expect_size("gy", gy.size(), y.size());
    detail::expect_size("gmemory", gmemory.size(), columns() * memory_size());
    detail::call(mac_step_adjoint, get(), y.data(), gclosure.data(), gmemory.data(), gy.data());
  }
  /// dclosure/dy, (columns, outputs, inputs)
  void step_jacobian(std::span<const double> y, std::span<double> jacobian) {
    detail::expect_size("y", y.size(), columns() * inputs_);
    detail::expect_size("jacobian", jacobian.size(), columns() * outputs_ * inputs_);
    detail::call(mac_step_jacobian, get(), y.data(), jacobian.data());
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

/// Steps of a state, recorded for derivatives along the window afterwards; arrays as those of State.
class Tape {
 public:
  /// Room for `steps` steps of `columns` columns.
  Tape(const Model& model, std::size_t columns, std::size_t steps)
      : y_size_(columns * model.inputs()), closure_size_(columns * model.outputs()) {
    mac_tape* created = nullptr;
    detail::call(mac_tape_create, model.get(), columns, steps, &created);
    handle_.reset(created);
  }

  std::size_t steps() const { return mac_tape_steps(handle_.get()); }
  void clear() { mac_tape_clear(handle_.get()); }

  /// state.step(y, closure), recorded.
  void step(State& state, std::span<const double> y, std::span<double> closure) {
    check(y.size(), closure.size());
    memory_size_ = state.columns() * state.memory_size();
    detail::call(mac_tape_step, handle_.get(), state.get(), y.data(), closure.data());
  }
  /// Of recorded step number `step`, from 0: (dy, dmemory) -> (dclosure, dmemory after it)
  void tangent(std::size_t step, std::span<const double> dy, std::span<double> dmemory,
               std::span<double> dclosure) {
    check(dy.size(), dclosure.size());
    detail::expect_size("dmemory", dmemory.size(), memory_size_);
    detail::call(mac_tape_tangent, handle_.get(), step, dy.data(), dmemory.data(), dclosure.data());
  }
  /// The transpose: (gclosure, gmemory after the step) -> (gy, gmemory before it)
  void adjoint(std::size_t step, std::span<const double> gclosure, std::span<double> gmemory,
               std::span<double> gy) {
    check(gy.size(), gclosure.size());
    detail::expect_size("gmemory", gmemory.size(), memory_size_);
    detail::call(mac_tape_adjoint, handle_.get(), step, gclosure.data(), gmemory.data(), gy.data());
  }

 private:
  void check(std::size_t y_size, std::size_t closure_size) const {
    detail::expect_size("an array like y", y_size, y_size_);
    detail::expect_size("an array like the closure", closure_size, closure_size_);
  }

  std::size_t y_size_, closure_size_, memory_size_ = 0;
  std::unique_ptr<mac_tape, detail::Close> handle_;
};

}  // namespace mac::runtime
