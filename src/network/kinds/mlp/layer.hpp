// The sizes and tensors of a layer without memory (the equations are in reference.hpp): what a closure can do
// that sees nothing but the present. Its state is empty.
#pragma once

#include "network/kinds/layer.hpp"

namespace mac::mlp {

struct Sizes {
  static constexpr std::size_t expand = 2;  // inner / d
  std::size_t d, inner;                     // d_model; hidden channels

  explicit Sizes(const NetworkShape& shape) : d(shape.d_model), inner(expand * shape.d_model) {}
};

template <class T>
struct Parameters {
  LinearParameters<T> up;    // (inner, d), (inner)
  LinearParameters<T> down;  // (d, inner), (d)
};

/// In the order of Layer::tensors.
template <class T>
Parameters<T> view(const Sizes& s, T* first) {
  TensorCursor<T> tensors(first);
  const LinearParameters<T> up = tensors.take_linear(s.inner, s.d);
  return {up, tensors.take_linear(s.d, s.inner)};
}

}  // namespace mac::mlp
