#include "runtime/runtime_state.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "runtime/saved_columns.hpp"

namespace mac {

namespace {

template <class T>
class StateOf final : public RuntimeState {
 public:
  StateOf(std::shared_ptr<const RuntimeModel> model, std::size_t columns)
      : RuntimeState(std::move(model), columns),
        engine_(std::get<StepEngine<T>>(model_->engine)),
        x_(columns * engine_.shape().d_in),
        c_(columns * engine_.shape().d_out),
        values_(std::max(engine_.shape().d_in, engine_.shape().d_out)),
        scratch_(cpu::aligned_array<T>(engine_.scratch_size())),
        memory_(columns * engine_.state_size()) {}
  StateOf(const StateOf& other)
      : RuntimeState(other),
        engine_(other.engine_),
        x_(other.x_.size()),
        c_(other.c_.size()),
        values_(other.values_.size()),
        scratch_(cpu::aligned_array<T>(engine_.scratch_size())),
        memory_(other.memory_) {}

  std::unique_ptr<RuntimeState> clone() const override { return std::make_unique<StateOf>(*this); }

  void step(const StridedLayout<const double>& y, const StridedLayout<double>& closure) override {
    advance<double>(y, closure);
  }
  void step(const StridedLayout<const float>& y, const StridedLayout<float>& closure) override {
    advance<float>(y, closure);
  }
  void step(const GridLayout<const double>& y, const GridLayout<double>& closure) override {
    advance<double>(y, closure);
  }
  void step(const GridLayout<const float>& y, const GridLayout<float>& closure) override {
    advance<float>(y, closure);
  }

  void point(const Field<const double>& y, double* x, double* memory) override {
    const StridedLayout<const double> layout{y};
    if (!(frames_.exist() ? take<true>(layout, nullptr) : take<false>(layout, nullptr))) refuse_input(layout);
    std::ranges::copy(x_, x);
    get_memory(memory);
  }
  void get_memory(double* memory) const override { std::ranges::copy(memory_, memory); }
  void set_memory(const double* memory) override {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if (!std::isfinite(static_cast<T>(memory[i])))
        throw NotFinite("the memory is {} in column {}, number {}", memory[i], i / engine_.state_size(),
                        i % engine_.state_size());
    std::transform(memory, memory + memory_.size(), memory_.begin(),
                   [](double number) { return static_cast<T>(number); });
  }

 protected:
  std::span<std::byte> memory(std::size_t column) override {
    const std::size_t size = engine_.state_size();
    return std::as_writable_bytes(std::span(memory_).subspan(column * size, size));
  }
  std::span<const std::byte> memory(std::size_t column) const override {
    const std::size_t size = engine_.state_size();
    return std::as_bytes(std::span(memory_).subspan(column * size, size));
  }
  bool memory_finite(std::span<const std::byte> memory) const override { return all_finite<T>(memory); }

 private:
  /// U is the host's scalar.
  template <class U, class In, class Out>
  void advance(const In& y, const Out& closure) {
    const bool changed = guard_ || frames_.exist();
    if (guard_ && !is_finite(y)) {  // a step that is refused is in no record
      take<true>(y, nullptr);
      refuse_input(y);
    }
    if (!(changed ? take<true>(y, guard_.get()) : take<false>(y, nullptr))) refuse_input(y);
    const NetworkShape& shape = engine_.shape();
    if (noise_.channels() > 0) take_noise();
    for (const Run& run : runs_)
      engine_.step(run.count, x_.data() + run.first * shape.d_in, c_.data() + run.first * shape.d_out,
                   memory_.data() + run.first * engine_.state_size(), scratch_.get());
    remember_closures();
    if (!(changed ? give<U, true>(closure) : give<U, false>(closure))) report_closure(closure);
  }

  template <class In>
  bool is_finite(const In& y) const {
    for (const Run& run : runs_)
      for (std::size_t j = run.first; j < run.first + run.count; ++j)
        for (std::size_t i = 0; i < model_->model.input_size(); ++i)
          if (!std::isfinite(y.column(j)[i])) return false;
    return true;
  }

  /// The noise of the step that each active column is about to take.
  void take_noise() {
    const std::size_t width = engine_.shape().d_in, inputs = model_->model.input_size();
    for (const Run& run : runs_)
      for (std::size_t j = run.first; j < run.first + run.count; ++j) {
        noise_.advance(j, {places_[j].seed, static_cast<std::uint32_t>(places_[j].stream)}, steps_[j]);
        for (std::size_t i = 0; i < noise_.channels(); ++i)
          x_[j * width + inputs + i] = noise_on_ ? static_cast<T>(noise_.of(j)[i]) : T(0);
      }
  }

  /// The next step's input from y, normalised: false where a number is not finite. kChanged: there is a guard, or there
  /// are frames.
  template <bool kChanged, class In>
  bool take(const In& y, Guard* guard) {
    const NormaliserView normaliser = model_->normalisers.input.view();
    const std::size_t inputs = model_->model.input_size(), width = engine_.shape().d_in;
    bool finite = true;
    for (const Run& run : runs_)
      for (std::size_t j = run.first; j < run.first + run.count; ++j) {
        const auto column = y.column(j);
        if constexpr (kChanged) {
          for (std::size_t i = 0; i < inputs; ++i) values_[i] = static_cast<double>(column[i]);
          if (frames_.exist()) {
            frames_.choose(j, values_.data());
            frames_.enter(j, values_.data());
          }
          if (guard) guard->inputs(j, values_.data());
        }
        for (std::size_t i = 0; i < inputs; ++i) {
          const double value = kChanged ? values_[i] : static_cast<double>(column[i]);
          const T x = static_cast<T>(normaliser.to_network(i, value));
          finite = finite && std::isfinite(x);
          x_[j * width + i] = x;
        }
      }
    return finite;
  }

  /// The predictions to the host, and into closure_: false where a number is not finite.
  template <class U, bool kChanged, class Out>
  bool give(const Out& closure) {
    const NormaliserView normaliser = model_->normalisers.output.view();
    const std::size_t outputs = engine_.shape().d_out;
    bool finite = true;
    for (const Run& run : runs_)
      for (std::size_t j = run.first; j < run.first + run.count; ++j) {
        const auto column = closure.column(j);
        double* const now = closure_.data() + j * outputs;
        for (std::size_t i = 0; i < outputs; ++i)
          now[i] = normaliser.to_physical(i, static_cast<double>(c_[j * outputs + i]));
        if constexpr (kChanged) {
          if (guard_) guard_closure(j, now);
          if (frames_.exist()) frames_.leave(j, now);
        }
        for (std::size_t i = 0; i < outputs; ++i) {
          const U value = static_cast<U>(now[i]);
          finite = finite && std::isfinite(value);
          column[i] = value;
        }
      }
    return finite;
  }

  /// The range of a closure is that of the training data, in the column's frame; the fallback is the host's.
  void guard_closure(std::size_t j, double* closure) {
    const double* fallback = guard_->fallback(j);
    if (frames_.exist()) {
      std::copy_n(fallback, engine_.shape().d_out, values_.data());
      frames_.enter(j, values_.data());
      fallback = values_.data();
    }
    if (!guard_->closure(j, closure, fallback)) std::ranges::fill(memory(j), std::byte{0});
  }

  /// The last closures become those before; a step of the active columns is counted.
  void remember_closures() {
    const std::size_t outputs = engine_.shape().d_out;
    if (all_active()) {
      std::swap(closure_, previous_);
    } else {
      for (const Run& run : runs_)
        std::copy_n(closure_.data() + run.first * outputs, run.count * outputs,
                    previous_.data() + run.first * outputs);
    }
    for (const Run& run : runs_)
      for (std::size_t j = run.first; j < run.first + run.count; ++j) {
        ++steps_[j];
        if (frames_.exist()) frames_.keep(j);
      }
  }

  template <class In>
  [[noreturn]] void refuse_input(const In& y) const {
    const std::size_t width = engine_.shape().d_in;
    for (const Run& run : runs_)
      for (std::size_t k = run.first * width; k < (run.first + run.count) * width; ++k) {
        if (std::isfinite(x_[k])) continue;
        const std::size_t j = k / width;
        std::size_t i = k % width;
        if (frames_.exist()) {  // in which one number that is not finite spoils all
          const std::size_t inputs = model_->model.input_size();
          std::size_t own = 0;
          while (own < inputs && std::isfinite(y.column(j)[own])) ++own;
          if (own < inputs) i = own;
        }
        const double value = static_cast<double>(y.column(j)[i]);
        throw NotFinite(
            "the input is {} in column {}, {}{}", value, j, describe_component(i, model_->model.input_names),
            std::isfinite(value) ? ", too large for the network's precision once normalised" : "");
      }
    throw Error("an input is not finite");
  }

  template <class Out>
  [[noreturn]] void report_closure(const Out& closure) const {
    const std::size_t outputs = engine_.shape().d_out;
    for (const Run& run : runs_)
      for (std::size_t k = run.first * outputs; k < (run.first + run.count) * outputs; ++k) {
        const std::size_t j = k / outputs, i = k % outputs;
        if (const auto value = closure.column(j)[i]; !std::isfinite(value))
          throw NotFinite(
              "the closure came out as {} in column {}, {}, and so did the state: restore or reset it", value,
              j, describe_component(i, model_->model.output_names));
      }
    throw Error("a closure is not finite");
  }

  const StepEngine<T>& engine_;
  std::vector<T> x_, c_;        // (columns, d_in), (columns, outputs), normalised
  std::vector<double> values_;  // of a column, in physical units
  cpu::AlignedArray<T> scratch_;
  std::vector<T> memory_;  // (columns, state_size)
};

}  // namespace

RuntimeState::RuntimeState(std::shared_ptr<const RuntimeModel> model, std::size_t columns)
    : model_(std::move(model)),
      columns_(columns),
      steps_(columns),
      closure_(columns * model_->model.shape.d_out),
      previous_(closure_.size()),
      frames_(model_->model.frame_modes(), columns),
      noise_(model_->model.noise, model_->model.closure_step.value_or(0), columns),
      active_(columns) {
  for (std::size_t j = 0; j < columns && noise_.channels() > 0; ++j) places_.push_back({0, j});
  runs_.reserve((columns + 1) / 2);
  runs_.push_back({0, columns});
}

RuntimeState::RuntimeState(const RuntimeState& other)
    : model_(other.model_),
      columns_(other.columns_),
      steps_(other.steps_),
      closure_(other.closure_),
      previous_(other.previous_),
      guard_(other.guard_ ? std::make_unique<Guard>(*other.guard_) : nullptr),
      frames_(other.frames_),
      noise_(other.noise_),
      noise_on_(other.noise_on_),
      places_(other.places_),
      active_(other.active_) {
  runs_.reserve((columns_ + 1) / 2);
  runs_.assign(other.runs_.begin(), other.runs_.end());
}

void RuntimeState::seed(std::uint64_t seed, const std::uint64_t* streams) {
  if (places_.empty()) throw UsageError("{}: is deterministic, it has no noise to seed", model_->file);
  for (std::size_t j = 0; streams && j < columns_; ++j)
    if (streams[j] > UINT32_MAX)
      throw UsageError("the noise of column {} is stream {}: expected 0 to {}", j, streams[j], UINT32_MAX);
  for (std::size_t j = 0; j < columns_; ++j) places_[j] = {seed, streams ? streams[j] : j};
}

void RuntimeState::set_noise(bool on) {
  if (places_.empty()) throw UsageError("{}: is deterministic, it reads no noise", model_->file);
  noise_on_ = on;
}

void RuntimeState::set_frames(const Field<const double>& y) {
  std::vector<double> state;
  std::vector<std::pair<std::size_t, double>> angles;  // nothing changes unless all is well
  for (std::size_t j = 0; frames_.exist() && j < columns_; ++j) {
    if (!std::isnan(frames_.angle(j))) continue;
    state.resize(model_->model.input_size());
    for (std::size_t i = 0; i < state.size(); ++i) state[i] = y.at(i, j);
    angles.emplace_back(j, fourier_angle(model_->model.frame_modes(), state.data()));
    if (std::isnan(angles.back().second))
      throw NotFinite("a number of y is not finite in column {}: it has no frame", j);
  }
  for (const auto& [column, angle] : angles) frames_.set(column, angle);
}

void RuntimeState::activate(std::size_t column) {
  ++active_;
  if (!runs_.empty() && runs_.back().first + runs_.back().count == column)
    ++runs_.back().count;
  else
    runs_.push_back({column, 1});
}

void RuntimeState::set_active(ColumnList columns) {
  check(columns);
  for (std::size_t k = 1; k < columns.size(); ++k)
    if (columns[k] <= columns[k - 1])
      throw UsageError("column {} comes after column {}: expected each once, in ascending order", columns[k],
                       columns[k - 1]);
  runs_.clear();
  active_ = 0;
  for (std::size_t k = 0; k < columns.size(); ++k) activate(columns[k]);
}

void RuntimeState::set_mask(const unsigned char* mask) {
  runs_.clear();
  active_ = 0;
  for (std::size_t j = 0; j < columns_; ++j)
    if (mask[j]) activate(j);
}

std::uint64_t RuntimeState::steps() const { return *std::ranges::max_element(steps_); }

void RuntimeState::check(ColumnList columns) const {
  for (std::size_t k = 0; k < columns.size(); ++k)
    if (columns[k] >= columns_)
      throw UsageError("column {} is beyond the {} of the state", columns[k], columns_);
}

void RuntimeState::copy(const RuntimeState& other, ColumnList from, ColumnList to) {
  if (other.model_ != model_ &&
      (other.model_->id != model_->id || other.model_->precision() != model_->precision()))
    throw UsageError("a state of {} in {} cannot be copied to one of {} in {}", other.model_->file,
                     to_string(other.model_->precision()), model_->file, to_string(model_->precision()));
  other.check(from);
  check(to);
  const std::size_t outputs = model_->model.shape.d_out;
  for (std::size_t k = 0; k < to.size(); ++k) {
    std::ranges::copy(other.memory(from[k]), memory(to[k]).begin());
    std::copy_n(other.closure_.data() + from[k] * outputs, outputs, closure_.data() + to[k] * outputs);
    std::copy_n(other.previous_.data() + from[k] * outputs, outputs, previous_.data() + to[k] * outputs);
    steps_[to[k]] = other.steps_[from[k]];
    if (frames_.exist()) frames_.set(to[k], other.frames_.angle(from[k]));
    if (places_.empty()) continue;
    places_[to[k]] = other.places_[from[k]];
    std::copy_n(other.noise_.of(from[k]), noise_.channels(), noise_.of(to[k]));
  }
}

void RuntimeState::reset(ColumnList columns) {
  check(columns);
  const std::size_t outputs = model_->model.shape.d_out;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    std::ranges::fill(memory(columns[k]), std::byte{0});
    std::fill_n(closure_.data() + columns[k] * outputs, outputs, 0.0);
    std::fill_n(previous_.data() + columns[k] * outputs, outputs, 0.0);
    steps_[columns[k]] = 0;
    if (frames_.exist()) frames_.forget(columns[k]);
  }
}

std::size_t RuntimeState::record_size() const {
  static_assert(sizeof(NoisePlace) == 2 * sizeof(std::uint64_t));
  return saved_record_size(*model_);
}

std::size_t RuntimeState::saved_size(std::size_t columns) const {
  return saved_head_size + columns * record_size();
}

void RuntimeState::save(ColumnList columns, std::span<std::byte> out) const {
  check(columns);
  const std::size_t outputs = model_->model.shape.d_out;
  std::byte* next = out.data() + saved_head_size;
  const auto put = [&](const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(next, from, bytes);  // a network without memory has no bytes anywhere
    next += bytes;
  };
  for (std::size_t k = 0; k < columns.size(); ++k) {
    put(&steps_[columns[k]], sizeof(std::uint64_t));
    put(memory(columns[k]).data(), memory(columns[k]).size());
    put(closure_.data() + columns[k] * outputs, outputs * sizeof(double));
    put(previous_.data() + columns[k] * outputs, outputs * sizeof(double));
    if (!places_.empty()) {
      put(noise_.of(columns[k]), noise_.channels() * sizeof(double));
      put(&places_[columns[k]], sizeof(NoisePlace));
    }
    if (frames_.exist()) {
      const double angle = frames_.angle(columns[k]);
      put(&angle, sizeof angle);
    }
  }
  write_saved_head(*model_, columns.size(), out);
}

std::size_t RuntimeState::saved_columns(std::span<const std::byte> saved) const { return count_saved(saved); }

void RuntimeState::restore(std::span<const std::byte> saved, ColumnList from, ColumnList to) {
  const SavedRecords records = read_saved(*model_, saved);
  const std::size_t record = record_size();
  const auto payload = records.bytes;
  check(to);
  const std::size_t recurrent = memory(0).size(), outputs = model_->model.shape.d_out;
  const auto numbers = [&](std::size_t k) {
    return payload.subspan(from[k] * record + sizeof(std::uint64_t), record - sizeof(std::uint64_t));
  };
  const auto angle = [&](std::size_t k) {  // the last number of a record
    double value;
    std::memcpy(&value, payload.data() + (from[k] + 1) * record - sizeof value, sizeof value);
    return value;
  };
  for (std::size_t k = 0; k < from.size(); ++k) {
    if (from[k] >= records.columns)
      throw UsageError("column {} is beyond the {} of the saved state", from[k], records.columns);
    const auto doubles = numbers(k).subspan(recurrent, (2 * outputs + noise_.channels()) * sizeof(double));
    if (!memory_finite(numbers(k).first(recurrent)) || !all_finite<double>(doubles) ||
        (frames_.exist() && std::isinf(angle(k))))
      throw NotFinite(
          "column {} of the saved state has a number that is not finite: it was saved after a "
          "blow-up",
          from[k]);
  }
  for (std::size_t k = 0; k < from.size(); ++k) {
    const std::byte* const closures = numbers(k).data() + recurrent;
    std::memcpy(&steps_[to[k]], payload.data() + from[k] * record, sizeof(std::uint64_t));
    std::ranges::copy(numbers(k).first(recurrent), memory(to[k]).begin());
    std::memcpy(closure_.data() + to[k] * outputs, closures, outputs * sizeof(double));
    std::memcpy(previous_.data() + to[k] * outputs, closures + outputs * sizeof(double),
                outputs * sizeof(double));
    if (!places_.empty()) {
      const std::byte* const noise = closures + 2 * outputs * sizeof(double);
      std::memcpy(noise_.of(to[k]), noise, noise_.channels() * sizeof(double));
      std::memcpy(&places_[to[k]], noise + noise_.channels() * sizeof(double), sizeof(NoisePlace));
    }
    if (frames_.exist()) frames_.set(to[k], angle(k));
  }
}

std::unique_ptr<RuntimeState> make_state(std::shared_ptr<const RuntimeModel> model, std::size_t columns) {
  constexpr std::size_t most = std::size_t{1} << 32;  // keeps every product of sizes within 64 bits
  if (columns < 1 || columns > most)
    throw UsageError("a state of {} columns was asked for: expected 1 to {}", columns, most);
  if (model->precision() == Precision::float64)
    return std::make_unique<StateOf<double>>(std::move(model), columns);
  return std::make_unique<StateOf<float>>(std::move(model), columns);
}

}  // namespace mac
