// A selective layer over a batch of sequences. With u the layer's input (d_model channels):
//
//   x, z = rows of in_proj · u                                    (d_inner channels each)
//   c_t  = conv_bias + Σ_k conv_weight_k · x_{t−3+k},  k = 0..3   depthwise, causal
//   v    = SiLU(c)
//   dt, B, C = rows of x_proj · v                                 (dt_rank, d_state, d_state)
//   Δ    = softplus(dt_proj · dt + bias)
//   s_t  = F_t s_{t−1} + Δ_t B_t v_t                              s is (d_state, d_inner)
//   p_t  = C_t · s_t + D v_t
//   out  = out_proj · (p · SiLU(z))
//
// What F_t does to the states, the kind's Scan says, which has forward and backward. The state between two sequences is the
// last three x and the last s.
#pragma once

#include <cmath>
#include <mac/network.hpp>
#include <vector>

#include "network/reference_layer.hpp"
#include "network/reference_layers.hpp"
#include "network/selective/layer.hpp"

namespace mac::selective {

using namespace reference;

inline constexpr std::size_t d_conv = Sizes::d_conv;
inline constexpr std::size_t window = d_conv - 1;  // inputs the convolution remembers

/// x at time t of sample b, with t from −3: the times before the sequence are in the state.
template <class T>
struct ConvInput {
  const T* x;                  // (batch, time, d_inner)
  StateView<const T> initial;  // (d_conv−1, d_inner), oldest first
  SequenceDims dims;
  std::size_t d_inner;

  T at(std::size_t b, std::ptrdiff_t t, std::size_t c) const {
    if (t >= 0) return x[(b * dims.time + static_cast<std::size_t>(t)) * d_inner + c];
    return initial ? initial.sample(b)[static_cast<std::size_t>(t + std::ptrdiff_t{window}) * d_inner + c]
                   : T(0);
  }
};

/// y (batch, time, d_inner); final (d_conv−1, d_inner) gets the last three inputs
template <class T>
void conv_forward(T* y, StateView<T> final_window, const ConvInput<T>& in, const T* weight, const T* bias) {
  const std::size_t batch = in.dims.batch, time = in.dims.time;
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t t = 0; t < time; ++t)
      for (std::size_t c = 0; c < in.d_inner; ++c) {
        T sum = bias[c];
        for (std::size_t k = 0; k < d_conv; ++k)
          sum += weight[c * d_conv + k] *
                 in.at(b, static_cast<std::ptrdiff_t>(t + k) - std::ptrdiff_t{window}, c);
        y[(b * time + t) * in.d_inner + c] = sum;
      }
    if (!final_window) continue;
    for (std::size_t k = 0; k < window; ++k)
      for (std::size_t c = 0; c < in.d_inner; ++c)
        final_window.sample(b)[k * in.d_inner + c] =
            in.at(b, static_cast<std::ptrdiff_t>(time + k) - std::ptrdiff_t{window}, c);
  }
}

/// d_initial (d_conv−1, d_inner) is added to as well.
template <class T>
void conv_backward(T* d_x, StateView<T> d_initial, T* d_weight, T* d_bias, const T* d_y,
                   StateView<const T> d_final, const ConvInput<T>& in, const T* weight) {
  const std::size_t batch = in.dims.batch, time = in.dims.time;
  const auto add = [&](std::size_t b, std::ptrdiff_t t, std::size_t c, T value) {
    if (t >= 0)
      d_x[(b * time + static_cast<std::size_t>(t)) * in.d_inner + c] += value;
    else if (d_initial)
      d_initial.sample(b)[static_cast<std::size_t>(t + std::ptrdiff_t{window}) * in.d_inner + c] += value;
  };
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t t = 0; t < time; ++t)
      for (std::size_t c = 0; c < in.d_inner; ++c) {
        const T d = d_y[(b * time + t) * in.d_inner + c];
        d_bias[c] += d;
        for (std::size_t k = 0; k < d_conv; ++k) {
          const std::ptrdiff_t source = static_cast<std::ptrdiff_t>(t + k) - std::ptrdiff_t{window};
          d_weight[c * d_conv + k] += d * in.at(b, source, c);
          add(b, source, c, d * weight[c * d_conv + k]);
        }
      }
    if (!d_final) continue;
    for (std::size_t k = 0; k < window; ++k)
      for (std::size_t c = 0; c < in.d_inner; ++c)
        add(b, static_cast<std::ptrdiff_t>(time + k) - std::ptrdiff_t{window}, c,
            d_final.sample(b)[k * in.d_inner + c]);
  }
}

/// Inputs of the selective scan, all (batch, time, ·): v, delta have d_inner channels, B and C d_state.
template <class T>
struct ScanInput {
  const T *v, *delta, *B, *C;
  StateView<const T> initial;  // (d_state, d_inner)
  SequenceDims dims;
  std::size_t d_inner, d_state;
};

/// Gradients of the scan's inputs, shaped like them; all are added to.
template <class T>
struct ScanGradient {
  T *v, *delta, *B, *C;
  StateView<T> initial;
  T *A_log, *D;
};

/// What the backward pass needs, all (batch, time, ·).
template <class T>
struct Activations {
  std::vector<T> x, z;      // (d_inner)
  std::vector<T> c, v;      // (d_inner): convolution, after SiLU
  std::vector<T> dt, B, C;  // (dt_rank), (d_state), (d_state)
  std::vector<T> step;      // (d_inner): before softplus
  std::vector<T> delta;     // (d_inner)
  std::vector<T> s;         // (d_state, d_inner)
  std::vector<T> p, gated;  // (d_inner)

  void resize(const Sizes& sizes, SequenceDims dims) {
    const std::size_t rows = dims.batch * dims.time;
    for (auto* array : {&x, &z, &c, &v, &step, &delta, &p, &gated}) array->resize(rows * sizes.d_inner);
    dt.resize(rows * sizes.rank);
    for (auto* array : {&B, &C}) array->resize(rows * sizes.d_state);
    s.resize(rows * sizes.d_state * sizes.d_inner);
  }

  ConvInput<T> conv_input(const Sizes& sizes, SequenceDims dims, StateView<const T> initial) const {
    return {x.data(), initial, dims, sizes.d_inner};
  }
  ScanInput<T> scan_input(const Sizes& sizes, SequenceDims dims, StateView<const T> initial) const {
    return {v.data(), delta.data(),  B.data(),     C.data(), initial.skip(window * sizes.d_inner),
            dims,     sizes.d_inner, sizes.d_state};
  }
};

/// out, u (batch, time, d_model); the states are those of this block
template <class Scan, class T>
void layer_forward(T* out, StateView<T> final_state, Activations<T>& a, const T* u,
                   StateView<const T> initial, const Parameters<const T>& w, const Sizes& sizes,
                   SequenceDims dims) {
  const std::size_t rows = dims.batch * dims.time, d = sizes.d_model, inner = sizes.d_inner;
  const std::size_t rank = sizes.rank, states = sizes.d_state;
  const T* const no_bias = nullptr;
  a.resize(sizes, dims);

  linear_forward(a.x.data(), u, w.in_proj, no_bias, rows, d, inner);
  linear_forward(a.z.data(), u, w.in_proj + inner * d, no_bias, rows, d, inner);
  conv_forward(a.c.data(), final_state, a.conv_input(sizes, dims, initial), w.conv_weight, w.conv_bias);
  silu_forward(a.v.data(), a.c.data(), rows * inner);

  linear_forward(a.dt.data(), a.v.data(), w.x_proj, no_bias, rows, inner, rank);
  linear_forward(a.B.data(), a.v.data(), w.x_proj + rank * inner, no_bias, rows, inner, states);
  linear_forward(a.C.data(), a.v.data(), w.x_proj + (rank + states) * inner, no_bias, rows, inner, states);
  linear_forward(a.step.data(), a.dt.data(), w.step.weight, w.step.bias, rows, rank, inner);
  for (std::size_t i = 0; i < rows * inner; ++i) a.delta[i] = softplus(a.step[i]);

  Scan::forward(a.p.data(), a.s.data(), final_state.skip(window * inner), a.scan_input(sizes, dims, initial),
                w.A_log, w.D);
  gate_forward(a.gated.data(), a.p.data(), a.z.data(), rows * inner);
  linear_forward(out, a.gated.data(), w.out_proj, no_bias, rows, inner, d);
}

template <class Scan, class T>
void layer_backward(T* d_u, StateView<T> d_initial, const Parameters<T>& d_w, const T* d_out,
                    StateView<const T> d_final, const Activations<T>& a, const T* u,
                    StateView<const T> initial, const Parameters<const T>& w, const Sizes& sizes,
                    SequenceDims dims) {
  const std::size_t rows = dims.batch * dims.time, d = sizes.d_model, inner = sizes.d_inner;
  const std::size_t rank = sizes.rank, states = sizes.d_state;
  T* const no_bias = nullptr;
  const std::size_t after_window = window * inner;
  std::vector<T> d_gated(rows * inner), d_p(rows * inner), d_z(rows * inner), d_v(rows * inner),
      d_delta(rows * inner), d_step(rows * inner), d_c(rows * inner), d_x(rows * inner);
  std::vector<T> d_dt(rows * rank), d_B(rows * states), d_C(rows * states);

  linear_backward(d_gated.data(), d_w.out_proj, no_bias, d_out, a.gated.data(), w.out_proj, rows, inner, d);
  gate_backward(d_p.data(), d_z.data(), d_gated.data(), a.p.data(), a.z.data(), rows * inner);
  Scan::backward(ScanGradient<T>{d_v.data(), d_delta.data(), d_B.data(), d_C.data(),
                                 d_initial.skip(after_window), d_w.A_log, d_w.D},
                 d_p.data(), d_final.skip(after_window), a.s.data(), a.scan_input(sizes, dims, initial),
                 w.A_log, w.D);

  for (std::size_t i = 0; i < rows * inner; ++i) d_step[i] = d_delta[i] * sigmoid(a.step[i]);
  linear_backward(d_dt.data(), d_w.step.weight, d_w.step.bias, d_step.data(), a.dt.data(), w.step.weight,
                  rows, rank, inner);
  linear_backward(d_v.data(), d_w.x_proj, no_bias, d_dt.data(), a.v.data(), w.x_proj, rows, inner, rank);
  linear_backward(d_v.data(), d_w.x_proj + rank * inner, no_bias, d_B.data(), a.v.data(),
                  w.x_proj + rank * inner, rows, inner, states);
  linear_backward(d_v.data(), d_w.x_proj + (rank + states) * inner, no_bias, d_C.data(), a.v.data(),
                  w.x_proj + (rank + states) * inner, rows, inner, states);

  silu_backward(d_c.data(), d_v.data(), a.c.data(), rows * inner);
  conv_backward(d_x.data(), d_initial, d_w.conv_weight, d_w.conv_bias, d_c.data(), d_final,
                a.conv_input(sizes, dims, initial), w.conv_weight);
  linear_backward(d_u, d_w.in_proj, no_bias, d_x.data(), u, w.in_proj, rows, d, inner);
  linear_backward(d_u, d_w.in_proj + inner * d, no_bias, d_z.data(), u, w.in_proj + inner * d, rows, d,
                  inner);
}

}  // namespace mac::selective
