// The LSTM layer (PyTorch's) over a batch of sequences. With u the layer's input, h the hidden state and c the
// cell:
//
//   i = σ(W_ii u + b_ii + W_hi h + b_hi)             input gate
//   f = σ(W_if u + b_if + W_hf h + b_hf)             forget gate
//   g = tanh(W_ig u + b_ig + W_hg h + b_hg)          candidate
//   o = σ(W_io u + b_io + W_ho h + b_ho)             output gate
//   c' = f c + i g
//   h' = o tanh(c')
//
// All have d = d_model channels; the rows of weight_ih, weight_hh and the biases come in the order i, f, g, o.
#pragma once

#include <cmath>
#include <mac/network.hpp>
#include <vector>

#include "network/kinds/lstm/layer.hpp"
#include "network/reference_layer.hpp"
#include "network/reference_layers.hpp"

namespace mac::lstm {

using namespace reference;

/// What the backward pass needs, all (batch, time, d).
template <class T>
struct Activations {
  std::vector<T> i, f, g, o, c, h;

  void resize(const Sizes& sizes, SequenceDims dims) {
    for (auto* array : {&i, &f, &g, &o, &c, &h}) array->resize(dims.batch * dims.time * sizes.d);
  }
};

/// out, u (batch, time, d); the state is h, then c, of this block
template <class T>
void reference_forward(T* out, StateView<T> final_state, Activations<T>& a, const T* u,
                       StateView<const T> initial, const Parameters<const T>& w, const Sizes& sizes,
                       SequenceDims dims) {
  const std::size_t d = sizes.d, time = dims.time;
  const std::vector<T> zeros(d);
  std::vector<T> from_input(4 * d), from_hidden(4 * d);
  a.resize(sizes, dims);
  for (std::size_t b = 0; b < dims.batch; ++b) {
    const T* hidden = initial ? initial.sample(b) : zeros.data();
    const T* cell = initial ? initial.sample(b) + d : zeros.data();
    for (std::size_t t = 0; t < time; ++t) {
      const std::size_t row = (b * time + t) * d;
      linear_forward(from_input.data(), u + row, w.input.weight, w.input.bias, 1, d, 4 * d);
      linear_forward(from_hidden.data(), hidden, w.hidden.weight, w.hidden.bias, 1, d, 4 * d);
      for (std::size_t k = 0; k < d; ++k) {
        const auto sum = [&](std::size_t gate) {
          return from_input[gate * d + k] + from_hidden[gate * d + k];
        };
        const T i = sigmoid(sum(0)), f = sigmoid(sum(1)), g = std::tanh(sum(2)), o = sigmoid(sum(3));
        const T c = f * cell[k] + i * g, h = o * std::tanh(c);
        a.i[row + k] = i, a.f[row + k] = f, a.g[row + k] = g, a.o[row + k] = o;
        a.c[row + k] = c, a.h[row + k] = h;
        out[row + k] = h;
      }
      hidden = a.h.data() + row, cell = a.c.data() + row;
    }
    if (!final_state) continue;
    for (std::size_t k = 0; k < d; ++k)
      final_state.sample(b)[k] = hidden[k], final_state.sample(b)[d + k] = cell[k];
  }
}

template <class T>
void reference_backward(T* d_u, StateView<T> d_initial, const Parameters<T>& d_w, const T* d_out,
                        StateView<const T> d_final, const Activations<T>& a, const T* u,
                        StateView<const T> initial, const Parameters<const T>& w, const Sizes& sizes,
                        SequenceDims dims) {
  const std::size_t d = sizes.d, time = dims.time;
  const std::vector<T> zeros(d);
  std::vector<T> d_h(d), d_c(d);  // gradients of h' and c' from later times; then of h and c
  std::vector<T> d_gates(4 * d);  // before the sigmoids and the tanh
  for (std::size_t b = 0; b < dims.batch; ++b) {
    for (std::size_t k = 0; k < d; ++k) {
      d_h[k] = d_final ? d_final.sample(b)[k] : T(0);
      d_c[k] = d_final ? d_final.sample(b)[d + k] : T(0);
    }
    for (std::size_t t = time; t-- > 0;) {
      const std::size_t row = (b * time + t) * d;
      const T* const hidden = t > 0 ? a.h.data() + row - d : initial ? initial.sample(b) : zeros.data();
      const T* const cell = t > 0 ? a.c.data() + row - d : initial ? initial.sample(b) + d : zeros.data();
      for (std::size_t k = 0; k < d; ++k) {
        const T i = a.i[row + k], f = a.f[row + k], g = a.g[row + k], o = a.o[row + k];
        const T q = std::tanh(a.c[row + k]), d_new = d_h[k] + d_out[row + k];
        const T d_cell = d_c[k] + d_new * o * (1 - q * q);
        d_gates[k] = d_cell * g * i * (1 - i);
        d_gates[d + k] = d_cell * cell[k] * f * (1 - f);
        d_gates[2 * d + k] = d_cell * i * (1 - g * g);
        d_gates[3 * d + k] = d_new * q * o * (1 - o);
        d_c[k] = d_cell * f;
        d_h[k] = 0;
      }
      linear_backward(d_u + row, d_w.input.weight, d_w.input.bias, d_gates.data(), u + row, w.input.weight, 1,
                      d, 4 * d);
      linear_backward(d_h.data(), d_w.hidden.weight, d_w.hidden.bias, d_gates.data(), hidden, w.hidden.weight,
                      1, d, 4 * d);
    }
    if (!d_initial) continue;
    for (std::size_t k = 0; k < d; ++k)
      d_initial.sample(b)[k] += d_h[k], d_initial.sample(b)[d + k] += d_c[k];
  }
}

}  // namespace mac::lstm
