// Any sequence of calls of the C interface, with null pointers, columns that do not exist, buffers that are too short and
// numbers that are not finite: each is done or refused, nothing outside the caller's arrays is touched. The bytes say which
// model, then call after call with its arguments. Arrays have exactly the size that mac.h asks for.
#include <mac/mac.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace {

/// The input, byte by byte; zeros when it has come to its end.
class Choices {
 public:
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }
  double number() {
    static constexpr double special[] = {
        0.0,   -0.0,   1e300, -1e300, 1e-310, std::numeric_limits<double>::quiet_NaN(),
        -1e30, 1e-300, 1e38,  1e9,    0.5,    std::numeric_limits<double>::infinity()};
    const std::uint8_t which = byte();
    return which < std::size(special) ? special[which] : (which - 128) / 32.0;
  }
  std::vector<double> numbers(std::size_t count) {
    std::vector<double> values(count);
    const bool varied = byte() % 2 == 1;
    const double all = number();
    for (double& value : values) value = varied ? number() : all;
    return values;
  }
  /// Mostly columns that exist.
  std::vector<std::size_t> columns() {
    std::vector<std::size_t> values(byte() % 6);
    for (std::size_t& value : values) {
      value = byte() % 8;
      if (value == 7) value = ~std::size_t{0} >> byte() % 4;
    }
    return values;
  }
  template <class T>
  T* maybe_null(T* pointer) {
    return byte() % 16 == 15 ? nullptr : pointer;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

mac_model* model_number(std::size_t which) {
  static const auto* const models = [] {
    auto* const opened = new std::vector<mac_model*>;  // stays
    for (const char* name :
         {"mamba_metadata", "framed", "deviations", "noise", "ensemble", "local", "gru_bare"}) {
      mac_model* model = nullptr;
      mac_error error;
      const std::string path = std::string(MAC_FUZZ_CORPUS "/") + name + ".safetensors";
      if (mac_model_open(path.c_str(), MAC_PRECISION_OF_FILE, &model, &error) != MAC_OK) std::abort();
      opened->push_back(model);
    }
    return opened;
  }();
  return (*models)[which % models->size()];
}

class Host {
 public:
  Host(mac_model* model, Choices& choices) : model_(model), choices_(choices) {
    for (std::size_t i = 0; i < 2; ++i)
      if (mac_state_create(model, 3 + i, &states_[i], nullptr) != MAC_OK) std::abort();
    mac_tape_create(model, 3, 2, &tape_, nullptr);  // a stochastic model has none
  }
  ~Host() {
    mac_coupler_free(coupler_);
    mac_tape_free(tape_);
    for (mac_state* state : states_) mac_state_free(state);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void call() {
    mac_state* const state = states_[choices_.byte() % 2];
    const std::size_t columns = mac_state_columns(state);
    const std::size_t inputs = mac_model_inputs(model_), outputs = mac_model_outputs(model_);
    const auto y = [&] { return choices_.numbers(columns * inputs); };
    std::vector<double> closure(columns * outputs);
    mac_error error;
    switch (choices_.byte() % 20) {
      case 0:
      case 1:
        mac_step(state, choices_.maybe_null(y().data()), choices_.maybe_null(closure.data()), &error);
        break;
      case 2: {
        const auto chosen = choices_.columns();
        mac_state_set_active(state, choices_.maybe_null(chosen.data()), chosen.size(), &error);
        break;
      }
      case 3: {
        const std::vector<unsigned char> mask(columns, choices_.byte());
        mac_state_set_mask(state, choices_.maybe_null(mask.data()), &error);
        break;
      }
      case 4:
        save();
        break;
      case 5: {
        const auto from = choices_.columns(), to = choices_.columns();
        mac_state_restore_columns(state, saved_.data(), saved_.size(), from.data(), to.data(),
                                  std::min(from.size(), to.size()), &error);
        break;
      }
      case 6: {
        const auto from = choices_.columns(), to = choices_.columns();
        mac_state_copy_columns(states_[choices_.byte() % 2], from.data(), state, to.data(),
                               std::min(from.size(), to.size()), &error);
        break;
      }
      case 7: {
        const auto chosen = choices_.columns();
        mac_state_reset_columns(state, choices_.maybe_null(chosen.data()), chosen.size(), &error);
        break;
      }
      case 8:
        limit(state);
        break;
      case 9: {
        const auto fallback = choices_.numbers(columns * outputs);
        mac_state_set_fallback(state, choices_.maybe_null(fallback.data()), &error);
        mac_diagnostics diagnostics;
        mac_state_diagnostics(state, choices_.byte(), &diagnostics, &error);
        break;
      }
      case 10: {
        if (tape_ && mac_tape_steps(tape_) > 2) std::abort();
        mac_tape_step(tape_, states_[0], choices_.numbers(3 * inputs).data(),
                      std::vector<double>(3 * outputs).data(), &error);
        break;
      }
      case 11: {
        std::vector<double> memory(3 * mac_state_memory_size(states_[0]), 0.5),
            out(3 * std::max(inputs, outputs));
        const std::vector<double> in = choices_.numbers(3 * std::max(inputs, outputs));
        const std::size_t step = choices_.byte() % 4;
        if (choices_.byte() % 2 == 0)
          mac_tape_tangent(tape_, step, in.data(), choices_.maybe_null(memory.data()), out.data(), &error);
        else
          mac_tape_adjoint(tape_, step, in.data(), choices_.maybe_null(memory.data()), out.data(), &error);
        if (choices_.byte() % 4 == 0) mac_tape_clear(tape_);
        break;
      }
      case 12:
        mac_closure_at(state, choices_.byte() % 4, choices_.number(), closure.data(), &error);
        break;
      case 13:
        couple();
        break;
      case 14: {
        const std::vector<std::uint64_t> streams(columns,
                                                 std::uint64_t{choices_.byte()} << choices_.byte() % 64);
        mac_state_seed(state, choices_.byte(), choices_.maybe_null(streams.data()), &error);
        mac_state_set_noise(state, choices_.byte() % 2, &error);
        break;
      }
      case 15:
        mac_state_set_frame(state, choices_.maybe_null(y().data()), &error);
        break;
      case 16: {
        std::vector<double> memory = choices_.numbers(columns * mac_state_memory_size(state));
        mac_state_set_memory(state, choices_.maybe_null(memory.data()), &error);
        mac_state_get_memory(state, memory.data(), &error);
        break;
      }
      case 17: {
        std::vector<double> jacobian(columns * inputs * outputs);
        mac_step_jacobian(state, y().data(), choices_.maybe_null(jacobian.data()), &error);
        break;
      }
      case 18:
        on_a_grid(state, inputs, outputs);
        break;
      default: {
        mac_state*& place = states_[state == states_[1] ? 1 : 0];
        if (coupler_) break;  // which steps that state
        mac_state* clone = nullptr;
        if (mac_state_clone(place, &clone, &error) != MAC_OK) std::abort();
        mac_state_free(place);
        place = clone;
      }
    }
  }

 private:
  /// A buffer of the size that is needed, or a little more or less, and maybe damaged.
  void save() {
    mac_error error;
    mac_state* const state = states_[choices_.byte() % 2];
    const auto chosen = choices_.columns();
    const std::size_t needed = mac_state_columns_bytes(state, chosen.size()), change = choices_.byte() % 8;
    saved_.assign(needed + (change == 1) - (change == 2), std::byte{0});
    mac_state_save_columns(state, chosen.data(), chosen.size(), saved_.data(), saved_.size(), &error);
    if (change == 3 && !saved_.empty()) saved_[choices_.byte() % saved_.size()] ^= std::byte{1};
    mac_saved_columns(state, saved_.data(), saved_.size());
    mac_state_restore(state, saved_.data(), saved_.size(), &error);
  }

  void limit(mac_state* state) {
    mac_error error;
    const std::size_t inputs = mac_model_inputs(model_), outputs = mac_model_outputs(model_);
    const auto input_low = choices_.numbers(inputs), input_high = choices_.numbers(inputs),
               output_low = choices_.numbers(outputs), output_high = choices_.numbers(outputs);
    mac_limits limits{choices_.byte() % 3,
                      choices_.byte() % 5,
                      choices_.number(),
                      choices_.number(),
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};
    if (choices_.byte() % 2 == 0) {
      limits.input_low = choices_.maybe_null(input_low.data()), limits.input_high = input_high.data();
      limits.output_low = output_low.data(), limits.output_high = output_high.data();
    }
    mac_state_set_limits(state, choices_.maybe_null(&limits), &error);
  }

  void couple() {
    mac_error error;
    if (!coupler_)
      mac_coupler_create(states_[1], choices_.number(), choices_.number(), choices_.byte() % 4, &coupler_,
                         &error);
    if (mac_coupler_closure_steps(coupler_) > 64) {  // which take the time they take
      mac_coupler_free(coupler_);
      coupler_ = nullptr;
    }
    if (!coupler_) return;
    const std::size_t columns = mac_state_columns(states_[1]);
    const auto y = choices_.numbers(columns * mac_model_inputs(model_));
    std::vector<double> closure(columns * mac_model_outputs(model_));
    mac_coupler_begin(coupler_, choices_.maybe_null(y.data()), &error);
    mac_coupler_closure(coupler_, choices_.number(), choices_.maybe_null(closure.data()), &error);
    std::vector<double> numbers(mac_coupler_numbers(coupler_));
    mac_coupler_save(coupler_, numbers.data(), &error);
    if (choices_.byte() % 4 == 0) numbers[choices_.byte() % numbers.size()] = choices_.number();
    mac_coupler_restore(coupler_, numbers.data(), &error);
    if (choices_.byte() % 4 == 0) {
      mac_coupler_free(coupler_);
      coupler_ = nullptr;
    }
  }

  /// Arrays of a grid that may not be the state's: as large as the strides reach.
  void on_a_grid(mac_state* state, std::size_t inputs, std::size_t outputs) {
    mac_error error;
    std::size_t extents[3];
    std::ptrdiff_t strides[3], reach = 1;
    for (int k = 0; k < 3; ++k) {
      extents[k] = choices_.byte() % 6;
      strides[k] = choices_.byte() % 4;
      reach += static_cast<std::ptrdiff_t>(extents[k]) * strides[k];
    }
    const std::size_t size = static_cast<std::size_t>(reach);
    std::vector<std::vector<double>> in, out(outputs, std::vector<double>(size));
    std::vector<const double*> from;
    std::vector<double*> to;
    for (std::size_t i = 0; i < inputs; ++i) in.push_back(choices_.numbers(size));
    for (const auto& array : in) from.push_back(choices_.maybe_null(array.data()));
    for (auto& array : out) to.push_back(choices_.maybe_null(array.data()));
    mac_step_fields(state, extents, from.data(), strides, to.data(), strides, &error);
    mac_closure_at_fields(state, MAC_HOLD_LINEAR, 0.5, extents, to.data(), strides, &error);
    // There may be no coupler: null is refused.
    mac_coupler_begin_fields(coupler_, extents, from.data(), strides, &error);
    mac_coupler_closure_fields(coupler_, 0.5, extents, to.data(), strides, &error);
  }

  mac_model* model_;
  Choices& choices_;
  mac_state* states_[2] = {};
  mac_tape* tape_ = nullptr;
  mac_coupler* coupler_ = nullptr;
  std::vector<std::byte> saved_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr int most_calls = 200;
  Choices choices({data, size});
  Host host(model_number(choices.byte()), choices);
  for (int n = 0; n < most_calls && !choices.done(); ++n) host.call();
  return 0;
}
