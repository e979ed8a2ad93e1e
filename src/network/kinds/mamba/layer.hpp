// The sizes and tensors of a Mamba layer (Mamba-1; the equations are in reference.hpp). Its state is the last
// d_conv-1 inputs of the convolution, oldest first, (d_conv-1, d_inner), then the state-space state (d_state,
// d_inner).
#pragma once

#include "network/kinds/layer.hpp"

namespace mac::mamba {

struct Sizes {
  static constexpr std::size_t d_conv = 4;
  static constexpr std::size_t expand = 2;  // d_inner / d_model
  std::size_t d_model, d_inner, d_state, rank;

  explicit Sizes(const NetworkShape& shape)
      : d_model(shape.d_model),
        d_inner(expand * shape.d_model),
        d_state(shape.d_state),
        rank((shape.d_model + 15) / 16) {}
};

template <class T>
struct Parameters {
  T* in_proj;                // (2·d_inner, d_model): rows of x, then of z
  T* conv_weight;            // (d_inner, 1, d_conv)
  T* conv_bias;              // (d_inner)
  T* x_proj;                 // (rank + 2·d_state, d_inner): rows of dt, B, C
  LinearParameters<T> step;  // (d_inner, rank), (d_inner): dt_proj
  T* A_log;                  // (d_inner, d_state)
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

}  // namespace mac::mamba
