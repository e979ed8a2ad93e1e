// The sizes and tensors of a GRU layer (PyTorch's; the equations are in reference.hpp). Its state is the
// hidden state (d_model).
#pragma once

#include "network/kinds/layer.hpp"

namespace mac::gru {

struct Sizes {
  std::size_t d;  // d_model

  explicit Sizes(const NetworkShape& shape) : d(shape.d_model) {}
};

template <class T>
struct Parameters {
  LinearParameters<T> input;   // (3·d, d), (3·d): gates r, z, n
  LinearParameters<T> hidden;  // likewise
};

/// In the order of Layer::tensors: both weights, then both biases.
template <class T>
Parameters<T> view(const Sizes& s, T* first) {
  TensorCursor<T> tensors(first);
  T *const input = tensors.take(3 * s.d * s.d), *const hidden = tensors.take(3 * s.d * s.d);
  T* const input_bias = tensors.take(3 * s.d);
  return {{input, input_bias}, {hidden, tensors.take(3 * s.d)}};
}

}  // namespace mac::gru
