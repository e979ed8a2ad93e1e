#include "runtime/runtime_state.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mac/held_rk4.hpp>
#include <type_traits>

#include "io/xxh64.hpp"

namespace mac {

namespace {

/// The head of saved columns. After it a record for each: steps (64 bits), recurrent state (state_size numbers
/// in the precision), the last two closures (2 x outputs doubles, the later one first).
struct SavedHead {
  char magic[8];
  std::uint32_t version;
  std::uint32_t precision;
  std::uint64_t model_id, columns, state_size, outputs, record_size;
  std::uint64_t hash;  // of the records and of this head with a zero here
};
static_assert(sizeof(SavedHead) == 64 && std::is_trivially_copyable_v<SavedHead>);

constexpr char magic[8] = {'M', 'A', 'C', 'S', 'T', 'A', 'T', 'E'};
constexpr std::uint32_t saved_version = 3;

SavedHead head_of(std::span<const std::byte> saved) {
  SavedHead head;
  if (saved.size() < sizeof head)
    throw Error("the saved state has {} bytes, too few for its head of {}", saved.size(), sizeof head);
  std::memcpy(&head, saved.data(), sizeof head);
  if (!std::ranges::equal(head.magic, magic)) throw Error("the buffer does not hold a saved state");
  if (head.version != saved_version)
    throw Error("the saved state has format version {}, this library reads {}", head.version, saved_version);
  return head;
}

std::uint64_t hash_of(SavedHead head, std::span<const std::byte> records) {
  head.hash = 0;
  return content_hash(std::as_bytes(std::span(&head, 1)), content_hash(records, 0));
}

/// The records behind a head; Error unless both are as they were saved.
std::span<const std::byte> records_of(const SavedHead& head, std::span<const std::byte> saved) {
  const std::size_t room = saved.size() - sizeof head;
  if (head.record_size > room || head.columns > room / std::max<std::uint64_t>(head.record_size, 1))
    throw Error("the saved state has {} bytes, too few for its {} columns; is it truncated?", saved.size(),
                head.columns);
  const auto records = saved.subspan(sizeof head, head.columns * head.record_size);
  if (hash_of(head, records) != head.hash)
    throw Error("the saved state is damaged: its checksum does not fit its contents");
  return records;
}

template <class T>
bool all_finite(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T value;  // a caller's buffer need not be aligned
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    if (!std::isfinite(value)) return false;
  }
  return true;
}

template <class T>
class StateOf final : public RuntimeState {
 public:
  StateOf(std::shared_ptr<const RuntimeModel> model, std::size_t columns)
      : RuntimeState(std::move(model), columns),
        engine_(std::get<StepEngine<T>>(model_->engine)),
        network_(engine_, model_->normalisers, columns),
        memory_(columns * engine_.state_size()) {}
  StateOf(const StateOf& other)
      : RuntimeState(other),
        engine_(other.engine_),
        network_(engine_, model_->normalisers, columns_),
        memory_(other.memory_) {}

  std::unique_ptr<RuntimeState> clone() const override { return std::make_unique<StateOf>(*this); }

  void step(const Field<const double>& y, const Field<double>& closure) override { advance(y, closure); }
  void step(const Field<const float>& y, const Field<float>& closure) override { advance(y, closure); }

  void point(const Field<const double>& y, double* x, double* memory) override {
    if (!network_.take(y)) refuse_input(y);
    std::ranges::copy(network_.input(), x);
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
  template <class U>
  void advance(const Field<const U>& y, const Field<U>& closure) {
    if (!network_.take(y)) refuse_input(y);
    network_.step(memory_.data());
    std::swap(closure_, previous_);
    for (std::uint64_t& steps : steps_) ++steps;
    bool finite = true;
    double* next = closure_.data();
    network_.give([&](std::size_t i, std::size_t j, double value) {
      finite = finite && std::isfinite(static_cast<U>(value));
      *next++ = value;
      closure.at(i, j) = static_cast<U>(value);
    });
    if (!finite) report_closure(closure);
  }

  template <class U>
  [[noreturn]] void refuse_input(const Field<const U>& y) const {
    const std::size_t inputs = engine_.shape().d_in;
    const auto bad = static_cast<std::size_t>(
        std::ranges::find_if_not(network_.input(), [](T x) { return std::isfinite(x); }) -
        network_.input().begin());
    const std::size_t j = bad / inputs, i = bad % inputs;
    const double value = static_cast<double>(y.at(i, j));
    throw NotFinite("the input is {} in column {}, {}{}", value, j,
                    describe_component(i, model_->model.input_names),
                    std::isfinite(value) ? ", too large for the network's precision once normalised" : "");
  }

  template <class U>
  [[noreturn]] void report_closure(const Field<U>& closure) const {
    const std::size_t outputs = engine_.shape().d_out;
    for (std::size_t k = 0;; ++k) {
      const std::size_t j = k / outputs, i = k % outputs;
      if (const U value = closure.at(i, j); !std::isfinite(value))
        throw NotFinite(
            "the closure came out as {} in column {}, {}, and so did the state: restore or reset it", value,
            j, describe_component(i, model_->model.output_names));
    }
  }

  const StepEngine<T>& engine_;
  NetworkColumns<T> network_;
  std::vector<T> memory_;  // (columns, state_size)
};

}  // namespace

RuntimeState::RuntimeState(std::shared_ptr<const RuntimeModel> model, std::size_t columns)
    : model_(std::move(model)),
      columns_(columns),
      steps_(columns),
      closure_(columns * model_->model.shape.d_out),
      previous_(closure_.size()) {}

void RuntimeState::closure_at(Hold hold, double fraction, const Field<double>& out) const {
  const std::size_t outputs = model_->model.shape.d_out;
  for (std::size_t j = 0; j < columns_; ++j) {
    const double share = held_rk4::share({hold, model_->held.target}, steps_[j] > 1, fraction);
    for (std::size_t i = 0; i < outputs; ++i)
      out.at(i, j) = held_rk4::line(closure_[j * outputs + i], previous_[j * outputs + i], share);
  }
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
  }
}

std::size_t RuntimeState::record_size() const {
  return sizeof(std::uint64_t) + memory(0).size() + 2 * model_->model.shape.d_out * sizeof(double);
}

std::size_t RuntimeState::saved_size(std::size_t columns) const {
  return sizeof(SavedHead) + columns * record_size();
}

void RuntimeState::save(ColumnList columns, std::span<std::byte> out) const {
  check(columns);
  const std::size_t outputs = model_->model.shape.d_out;
  std::byte* next = out.data() + sizeof(SavedHead);
  const auto put = [&](const void* from, std::size_t bytes) {
    std::memcpy(next, from, bytes);
    next += bytes;
  };
  for (std::size_t k = 0; k < columns.size(); ++k) {
    put(&steps_[columns[k]], sizeof(std::uint64_t));
    put(memory(columns[k]).data(), memory(columns[k]).size());
    put(closure_.data() + columns[k] * outputs, outputs * sizeof(double));
    put(previous_.data() + columns[k] * outputs, outputs * sizeof(double));
  }
  SavedHead head{{},         saved_version,  static_cast<std::uint32_t>(model_->precision()),
                 model_->id, columns.size(), model_->model.shape.state_size(),
                 outputs,    record_size(),  0};
  std::ranges::copy(magic, head.magic);
  head.hash = hash_of(head, out.subspan(sizeof(SavedHead), columns.size() * record_size()));
  std::memcpy(out.data(), &head, sizeof head);
}

std::size_t RuntimeState::saved_columns(std::span<const std::byte> saved) const {
  return head_of(saved).columns;
}

void RuntimeState::restore(std::span<const std::byte> saved, ColumnList from, ColumnList to) {
  const SavedHead head = head_of(saved);
  if (head.model_id != model_->id)
    throw Error("the saved state belongs to another model (id {:016x}) than {} (id {:016x})", head.model_id,
                model_->file, model_->id);
  if (head.precision != static_cast<std::uint32_t>(model_->precision()))
    throw Error("the saved state is of a model opened in {}, this one is opened in {}",
                to_string(static_cast<Precision>(head.precision)), to_string(model_->precision()));
  const std::size_t record = record_size();
  if (head.record_size != record)
    throw Error("the saved state has {} bytes a column, this model needs {}", head.record_size, record);
  const auto payload = records_of(head, saved);
  check(to);
  const std::size_t recurrent = memory(0).size(), outputs = model_->model.shape.d_out;
  const auto numbers = [&](std::size_t k) {
    return payload.subspan(from[k] * record + sizeof(std::uint64_t), record - sizeof(std::uint64_t));
  };
  for (std::size_t k = 0; k < from.size(); ++k) {
    if (from[k] >= head.columns)
      throw UsageError("column {} is beyond the {} of the saved state", from[k], head.columns);
    if (!memory_finite(numbers(k).first(recurrent)) || !all_finite<double>(numbers(k).subspan(recurrent)))
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
  }
}

void check_saved(std::span<const std::byte> saved) { records_of(head_of(saved), saved); }

std::unique_ptr<RuntimeState> make_state(std::shared_ptr<const RuntimeModel> model, std::size_t columns) {
  constexpr std::size_t most = std::size_t{1} << 32;  // keeps every product of sizes within 64 bits
  if (columns < 1 || columns > most)
    throw UsageError("a state of {} columns was asked for: expected 1 to {}", columns, most);
  if (model->precision() == Precision::float64)
    return std::make_unique<StateOf<double>>(std::move(model), columns);
  return std::make_unique<StateOf<float>>(std::move(model), columns);
}

}  // namespace mac
