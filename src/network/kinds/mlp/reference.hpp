// The layer without memory over a batch of sequences, each time step by itself:
//
//   a   = W_up u + b_up           (inner channels)
//   out = W_down SiLU(a) + b_down
#pragma once

#include <vector>

#include "network/kinds/mlp/layer.hpp"
#include "network/reference_layer.hpp"
#include "network/reference_layers.hpp"

namespace mac::mlp {

using namespace reference;

/// What the backward pass needs, all (batch, time, inner).
template <class T>
struct Activations {
  std::vector<T> a, activated;  // before SiLU and after
};

/// out, u (batch, time, d)
template <class T>
void reference_forward(T* out, StateView<T>, Activations<T>& kept, const T* u, StateView<const T>,
                       const Parameters<const T>& w, const Sizes& sizes, SequenceDims dims) {
  const std::size_t rows = dims.batch * dims.time, d = sizes.d, inner = sizes.inner;
  for (auto* array : {&kept.a, &kept.activated}) array->resize(rows * inner);
  linear_forward(kept.a.data(), u, w.up.weight, w.up.bias, rows, d, inner);
  silu_forward(kept.activated.data(), kept.a.data(), rows * inner);
  linear_forward(out, kept.activated.data(), w.down.weight, w.down.bias, rows, inner, d);
}

template <class T>
void reference_backward(T* d_u, StateView<T>, const Parameters<T>& d_w, const T* d_out, StateView<const T>,
                        const Activations<T>& kept, const T* u, StateView<const T>,
                        const Parameters<const T>& w, const Sizes& sizes, SequenceDims dims) {
  const std::size_t rows = dims.batch * dims.time, d = sizes.d, inner = sizes.inner;
  std::vector<T> d_activated(rows * inner), d_a(rows * inner);
  linear_backward(d_activated.data(), d_w.down.weight, d_w.down.bias, d_out, kept.activated.data(),
                  w.down.weight, rows, inner, d);
  silu_backward(d_a.data(), d_activated.data(), kept.a.data(), rows * inner);
  linear_backward(d_u, d_w.up.weight, d_w.up.bias, d_a.data(), u, w.up.weight, rows, d, inner);
}

}  // namespace mac::mlp
