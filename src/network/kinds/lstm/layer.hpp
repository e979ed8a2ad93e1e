// The sizes and tensors of an LSTM layer (PyTorch's; the equations are in reference.hpp). Its state is the
// hidden state h (d_model), then the cell c (d_model).
#pragma once

#include "network/kinds/layer.hpp"

namespace mac::lstm {

struct Sizes {
  std::size_t d;  // d_model

  explicit Sizes(const NetworkShape& shape) : d(shape.d_model) {}
};

template <class T>
struct Parameters {
  LinearParameters<T> input;   // (4·d, d), (4·d): gates i, f, g, o
  LinearParameters<T> hidden;  // likewise
};

/// In the order of Layer::tensors: both weights, then both biases.
template <class T>
Parameters<T> view(const Sizes& s, T* first) {
  TensorCursor<T> tensors(first);
  T *const input = tensors.take(4 * s.d * s.d), *const hidden = tensors.take(4 * s.d * s.d);
  T* const input_bias = tensors.take(4 * s.d);
  return {{input, input_bias}, {hidden, tensors.take(4 * s.d)}};
}

}  // namespace mac::lstm
