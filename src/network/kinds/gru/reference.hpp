// The GRU layer (PyTorch's) over a batch of sequences. With u the layer's input and h the hidden state:
//
//   r = σ(W_ir u + b_ir + W_hr h + b_hr)             reset gate
//   z = σ(W_iz u + b_iz + W_hz h + b_hz)             update gate
//   q = W_hn h + b_hn
//   n = tanh(W_in u + b_in + r q)                    candidate
//   h' = (1 − z) n + z h
//
// All have d = d_model channels; the rows of weight_ih, weight_hh and the biases come in the order r, z, n.
// Paper: apdx_neural_network_architectures.
#pragma once

#include <cmath>
#include <mac/network.hpp>
#include <vector>

#include "network/kinds/gru/layer.hpp"
#include "network/reference_layer.hpp"
#include "network/reference_layers.hpp"

namespace mac::gru {

using reference::linear_backward;
using reference::linear_forward;
using reference::sigmoid;
using reference::StateView;

/// What the backward pass needs, all (batch, time, d).
template <class T>
struct Activations {
  std::vector<T> r, z, q, n, h;

  void resize(const Sizes& sizes, SequenceDims dims) {
    for (auto* array : {&r, &z, &q, &n, &h}) array->resize(dims.batch * dims.time * sizes.d);
  }
};

/// out, u (batch, time, d_model); the state is the hidden state (d_model) of this block
template <class T>
void reference_forward(T* out, StateView<T> final_state, Activations<T>& a, const T* u,
                       StateView<const T> initial, const Parameters<const T>& w, const Sizes& sizes,
                       SequenceDims dims) {
  const std::size_t d = sizes.d, time = dims.time;
  const std::vector<T> zeros(d);
  std::vector<T> from_input(3 * d), from_hidden(3 * d);
  a.resize(sizes, dims);
  for (std::size_t b = 0; b < dims.batch; ++b) {
    const T* previous = initial ? initial.sample(b) : zeros.data();
    for (std::size_t t = 0; t < time; ++t) {
      const std::size_t row = (b * time + t) * d;
      linear_forward(from_input.data(), u + row, w.input.weight, w.input.bias, 1, d, 3 * d);
      linear_forward(from_hidden.data(), previous, w.hidden.weight, w.hidden.bias, 1, d, 3 * d);
      for (std::size_t i = 0; i < d; ++i) {
        const T r = sigmoid(from_input[i] + from_hidden[i]);
        const T z = sigmoid(from_input[d + i] + from_hidden[d + i]);
        const T q = from_hidden[2 * d + i];
        const T n = std::tanh(from_input[2 * d + i] + r * q);
        const T h = (1 - z) * n + z * previous[i];
        a.r[row + i] = r, a.z[row + i] = z, a.q[row + i] = q, a.n[row + i] = n, a.h[row + i] = h;
        out[row + i] = h;
      }
      previous = a.h.data() + row;
    }
    if (!final_state) continue;
    for (std::size_t i = 0; i < d; ++i) final_state.sample(b)[i] = previous[i];
  }
}

template <class T>
void reference_backward(T* d_u, StateView<T> d_initial, const Parameters<T>& d_w, const T* d_out,
                        StateView<const T> d_final, const Activations<T>& a, const T* u,
                        StateView<const T> initial, const Parameters<const T>& w, const Sizes& sizes,
                        SequenceDims dims) {
  const std::size_t d = sizes.d, time = dims.time;
  const std::vector<T> zeros(d);
  std::vector<T> d_h(d), d_previous(d);  // gradient of h', and of h through everything at this time
  std::vector<T> d_from_input(3 * d), d_from_hidden(3 * d);
  for (std::size_t b = 0; b < dims.batch; ++b) {
    for (std::size_t i = 0; i < d; ++i) d_h[i] = d_final ? d_final.sample(b)[i] : T(0);
    for (std::size_t t = time; t-- > 0;) {
      const std::size_t row = (b * time + t) * d;
      const T* const previous = t > 0 ? a.h.data() + row - d : initial ? initial.sample(b) : zeros.data();
      for (std::size_t i = 0; i < d; ++i) {
        const T r = a.r[row + i], z = a.z[row + i], q = a.q[row + i], n = a.n[row + i];
        const T d_new = d_h[i] + d_out[row + i];
        const T d_r = d_new * (1 - z) * (1 - n * n) * q * r * (1 - r);  // before the sigmoid
        const T d_z = d_new * (previous[i] - n) * z * (1 - z);          // before the sigmoid
        const T d_n = d_new * (1 - z) * (1 - n * n);                    // before the tanh
        d_from_input[i] = d_from_hidden[i] = d_r;
        d_from_input[d + i] = d_from_hidden[d + i] = d_z;
        d_from_input[2 * d + i] = d_n;
        d_from_hidden[2 * d + i] = d_n * r;
        d_previous[i] = d_new * z;
      }
      linear_backward(d_u + row, d_w.input.weight, d_w.input.bias, d_from_input.data(), u + row,
                      w.input.weight, 1, d, 3 * d);
      linear_backward(d_previous.data(), d_w.hidden.weight, d_w.hidden.bias, d_from_hidden.data(), previous,
                      w.hidden.weight, 1, d, 3 * d);
      d_h.swap(d_previous);
    }
    if (!d_initial) continue;
    for (std::size_t i = 0; i < d; ++i) d_initial.sample(b)[i] += d_h[i];
  }
}

}  // namespace mac::gru
