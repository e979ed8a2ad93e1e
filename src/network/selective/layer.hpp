// What selective state-space layers have in common: sizes and tensors. These layers are Mamba's but for the recurrence of
// their states, which is each kind's own (kinds/mamba, kinds/oscillator). Their state is the last d_conv-1 inputs of
// the convolution, oldest first, (d_conv-1, d_inner), then the state-space state (d_state, d_inner).
#pragma once

#include "network/kinds/layer.hpp"

namespace mac::selective {

struct Sizes {
  static constexpr std::size_t d_conv = 4;
  static constexpr std::size_t expand = 2;  // d_inner / d_model
  std::size_t d_model, d_inner, d_state, rank;

  /// With so many numbers in the state of a channel.
  Sizes(const NetworkShape& shape, std::size_t numbers)
      : d_model(shape.d_model),
        d_inner(expand * shape.d_model),
        d_state(numbers),
        rank((shape.d_model + 15) / 16) {}
};

template <class T>
struct Parameters {
  T* in_proj;                // (2·d_inner, d_model): rows of x, then of z
  T* conv_weight;            // (d_inner, 1, d_conv)
  T* conv_bias;              // (d_inner)
  T* x_proj;                 // (rank + 2·d_state, d_inner): rows of dt, B, C
  LinearParameters<T> step;  // (d_inner, rank), (d_inner): dt_proj
  T* A_log;                  // d_inner·d_state numbers, which the kind knows
  T* D;                      // (d_inner)
  T* out_proj;               // (d_model, d_inner)
};

/// In the order of Layer::tensors.
template <class T>
Parameters<T> view(const Sizes& s, T* first) {
  TensorCursor<T> tensors(first);
  Parameters<T> of;
  of.in_proj = tensors.take(2 * s.d_inner * s.d_model);
  of.conv_weight = tensors.take(s.d_inner * s.d_conv);
  of.conv_bias = tensors.take(s.d_inner);
  of.x_proj = tensors.take((s.rank + 2 * s.d_state) * s.d_inner);
  of.step = tensors.take_linear(s.d_inner, s.rank);
  of.A_log = tensors.take(s.d_inner * s.d_state);
  of.D = tensors.take(s.d_inner);
  of.out_proj = tensors.take(s.d_model * s.d_inner);
  return of;
}

/// All of a block; `rates` are the kind's own, their names without `kind` before them.
std::vector<LayerTensor> tensors(const std::string& kind, const Sizes& sizes, std::vector<LayerTensor> rates);

inline std::size_t state_size(const Sizes& s) { return (s.d_conv - 1 + s.d_state) * s.d_inner; }

inline std::size_t multiply_adds(const Sizes& s) {
  const std::size_t in_and_out = 3 * s.d_inner * s.d_model, projected = s.rank + 2 * s.d_state;
  return in_and_out + s.d_inner * (s.d_conv + projected + s.rank);
}

}  // namespace mac::selective
