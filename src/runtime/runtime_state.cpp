#include "runtime/runtime_state.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mac/held_rk4.hpp>
#include <type_traits>

#include "io/xxh64.hpp"

namespace mac {

namespace {

/// The head of a saved state. After it: the recurrent states, then closure and previous closure.
struct SavedHead {
  char magic[8];
  std::uint32_t version;
  std::uint32_t precision;
  std::uint64_t model_id, columns, state_size, outputs, steps;
  std::uint64_t payload_hash;
};
static_assert(sizeof(SavedHead) == 64 && std::is_trivially_copyable_v<SavedHead>);

constexpr char magic[8] = {'M', 'A', 'C', 'S', 'T', 'A', 'T', 'E'};
constexpr std::uint32_t saved_version = 1;

std::span<std::byte> bytes_of(std::vector<double>& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}
std::span<const std::byte> bytes_of(const std::vector<double>& numbers) {
  return std::as_bytes(std::span(numbers));
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

 protected:
  std::span<std::byte> memory() override { return std::as_writable_bytes(std::span(memory_)); }
  std::span<const std::byte> memory() const override { return std::as_bytes(std::span(memory_)); }
  bool memory_finite(std::span<const std::byte> memory) const override { return all_finite<T>(memory); }

 private:
  template <class U>
  void advance(const Field<const U>& y, const Field<U>& closure) {
    if (!network_.take(y)) refuse_input(y);
    network_.step(memory_.data());
    std::swap(closure_, previous_);
    ++steps_;
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
      closure_(columns * model_->model.shape.d_out),
      previous_(closure_.size()) {}

void RuntimeState::closure_at(Hold hold, double fraction, const Field<double>& out) const {
  const std::size_t outputs = model_->model.shape.d_out;
  const double share = held_rk4::share({hold, model_->held.target}, steps_ > 1, fraction);
  for (std::size_t j = 0; j < columns_; ++j)
    for (std::size_t i = 0; i < outputs; ++i)
      out.at(i, j) = held_rk4::line(closure_[j * outputs + i], previous_[j * outputs + i], share);
}

void RuntimeState::copy(const RuntimeState& from) {
  if (from.model_ != model_ &&
      (from.model_->id != model_->id || from.model_->precision() != model_->precision()))
    throw UsageError("a state of {} in {} cannot be copied to one of {} in {}", from.model_->file,
                     to_string(from.model_->precision()), model_->file, to_string(model_->precision()));
  if (from.columns_ != columns_)
    throw UsageError("a state of {} columns cannot be copied to one of {}", from.columns_, columns_);
  std::ranges::copy(from.memory(), memory().begin());
  closure_ = from.closure_;
  previous_ = from.previous_;
  steps_ = from.steps_;
}

void RuntimeState::reset() {
  std::ranges::fill(memory(), std::byte{0});
  std::ranges::fill(closure_, 0.0);
  std::ranges::fill(previous_, 0.0);
  steps_ = 0;
}

std::size_t RuntimeState::saved_size() const {
  return sizeof(SavedHead) + memory().size() + bytes_of(closure_).size() + bytes_of(previous_).size();
}

void RuntimeState::save(std::span<std::byte> out) const {
  std::span<std::byte> rest = out.subspan(sizeof(SavedHead));
  for (const std::span<const std::byte> part : {memory(), bytes_of(closure_), bytes_of(previous_)}) {
    std::ranges::copy(part, rest.begin());
    rest = rest.subspan(part.size());
  }
  const std::size_t outputs = model_->model.shape.d_out;
  SavedHead head{{},
                 saved_version,
                 static_cast<std::uint32_t>(model_->precision()),
                 model_->id,
                 columns_,
                 model_->model.shape.state_size(),
                 outputs,
                 steps_,
                 content_hash(out.subspan(sizeof(SavedHead), saved_size() - sizeof(SavedHead)), 0)};
  std::ranges::copy(magic, head.magic);
  std::memcpy(out.data(), &head, sizeof head);
}

void RuntimeState::restore(std::span<const std::byte> saved) {
  SavedHead head;
  if (saved.size() < sizeof head)
    throw Error("the saved state has {} bytes, too few for its head: expected {}", saved.size(),
                saved_size());
  std::memcpy(&head, saved.data(), sizeof head);
  if (!std::ranges::equal(head.magic, magic)) throw Error("the buffer does not hold a saved state");
  if (head.version != saved_version)
    throw Error("the saved state has format version {}, this library reads {}", head.version, saved_version);
  if (head.model_id != model_->id)
    throw Error("the saved state belongs to another model (id {:016x}) than {} (id {:016x})", head.model_id,
                model_->file, model_->id);
  if (head.precision != static_cast<std::uint32_t>(model_->precision()))
    throw Error("the saved state is of a model opened in {}, this one is opened in {}",
                to_string(static_cast<Precision>(head.precision)), to_string(model_->precision()));
  if (head.columns != columns_)
    throw Error("the saved state has {} columns, this state has {}", head.columns, columns_);
  if (saved.size() < saved_size())
    throw Error("the saved state has {} bytes, expected {}; is it truncated?", saved.size(), saved_size());
  const auto payload = saved.subspan(sizeof head, saved_size() - sizeof head);
  if (content_hash(payload, 0) != head.payload_hash)
    throw Error("the saved state is damaged: its checksum does not fit its contents");
  const std::size_t recurrent = memory().size(), predictions = bytes_of(closure_).size();
  if (!memory_finite(payload.first(recurrent)) || !all_finite<double>(payload.subspan(recurrent)))
    throw NotFinite("the saved state has a number that is not finite: it was saved after a blow-up");
  std::ranges::copy(payload.first(recurrent), memory().begin());
  std::ranges::copy(payload.subspan(recurrent, predictions), bytes_of(closure_).begin());
  std::ranges::copy(payload.subspan(recurrent + predictions), bytes_of(previous_).begin());
  steps_ = head.steps;
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
