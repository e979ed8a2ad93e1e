// One time step of the network with channels in lanes, for up to kStepTile samples at once.
//
// The order of every sum is that of the sequence kernels: a linear layer adds its inputs in ascending order
// to the bias, LayerNorm sums channels 0, 16, 32, ... into the first of 16 partial sums and so on and folds
// those by halves. So a step gives the bits of the sequence mode, for any batch.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/cpu/step_kernels.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/vector_math-inl.hpp"

#ifndef MAC_NETWORK_CPU_STEP_KERNELS_ONCE
#define MAC_NETWORK_CPU_STEP_KERNELS_ONCE
#include <algorithm>

#include "network/cpu/step.hpp"
#include "network/cpu/unroll.hpp"
#endif

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

using cpu::kStepTile;
using cpu::PackedLinear;
using cpu::PackedMamba;
using cpu::PackedNetwork;
using cpu::PackedNorm;

/// The activations of the samples of a tile; those of sample s lie `stride·s` behind the pointers.
template <class T>
struct Scratch {
  T* h;     // (padded d_model) residual stream
  T* u;     // (padded d_model) input of a layer
  T* wide;  // Mamba: x, z (2, padded d_inner); GRU: gates from input and hidden state (2, 3, padded d_model)
  T* x;     // (padded d_inner) after the convolution
  T* narrow;  // dt, B, C
  T* delta;   // (padded d_inner)
  T* g;       // (padded d_inner) gated output of the scan
  T* y;       // (padded d_out)
  std::size_t stride;

  Scratch(const PackedNetwork<T>& n, T* base)
      : h(base),
        u(h + n.model),
        wide(u + n.model),
        x(wide + n.wide),
        narrow(x + n.inner),
        delta(narrow + n.narrow),
        g(delta + n.inner),
        y(g + n.inner),
        stride(n.scratch_size()) {}
};

/// V vectors of outputs from column o on, for S samples: out[s][o] = bias[o] + Σ_i in[s][i] W[i][o]
template <class T, std::size_t S, std::size_t V>
HWY_INLINE void linear_tile(T* out, std::size_t out_stride, const T* in, std::size_t in_stride,
                            const PackedLinear<T>& w, std::size_t o) {
  const Tag<T> d;
  Vector<T> sum[S][V];
  MAC_UNROLL for (std::size_t s = 0; s < S; ++s) {
    MAC_UNROLL for (std::size_t v = 0; v < V; ++v) sum[s][v] =
        w.bias ? hn::Load(d, w.bias + o + v * kLanes<T>) : hn::Zero(d);
  }
  const T* weight = w.weight + o;
  for (std::size_t i = 0; i < w.inputs; ++i, weight += w.outputs) {
    Vector<T> row[V];
    MAC_UNROLL for (std::size_t v = 0; v < V; ++v) row[v] = hn::Load(d, weight + v * kLanes<T>);
    MAC_UNROLL for (std::size_t s = 0; s < S; ++s) {
      const auto x = hn::Set(d, in[s * in_stride + i]);
      MAC_UNROLL for (std::size_t v = 0; v < V; ++v) sum[s][v] = hn::MulAdd(x, row[v], sum[s][v]);
    }
  }
  MAC_UNROLL for (std::size_t s = 0; s < S; ++s) {
    MAC_UNROLL for (std::size_t v = 0; v < V; ++v)
        hn::Store(sum[s][v], d, out + s * out_stride + o + v * kLanes<T>);
  }
}

template <class T, std::size_t S>
HWY_NOINLINE void linear(T* out, std::size_t out_stride, const T* in, std::size_t in_stride,
                         const PackedLinear<T>& w) {
  std::size_t o = 0;
  for (; o + 6 * kLanes<T> <= w.outputs; o += 6 * kLanes<T>)
    linear_tile<T, S, 6>(out, out_stride, in, in_stride, w, o);
  switch ((w.outputs - o) / kLanes<T>) {
    case 5:
      return linear_tile<T, S, 5>(out, out_stride, in, in_stride, w, o);
    case 4:
      return linear_tile<T, S, 4>(out, out_stride, in, in_stride, w, o);
    case 3:
      return linear_tile<T, S, 3>(out, out_stride, in, in_stride, w, o);
    case 2:
      return linear_tile<T, S, 2>(out, out_stride, in, in_stride, w, o);
    case 1:
      return linear_tile<T, S, 1>(out, out_stride, in, in_stride, w, o);
    default:
      return;
  }
}

template <class T>
HWY_INLINE void silu_in_place(T* x, std::size_t padded) {
  const Tag<T> d;
  for (std::size_t c = 0; c < padded; c += kLanes<T>) {
    const auto v = hn::Load(d, x + c);
    hn::Store(hn::Mul(v, sigmoid<T>(v)), d, x + c);
  }
}

/// Σ_c x[c] (or of squares of x[c] − mean) over the first `count` channels, in the order described above
template <class T, bool kSquares>
HWY_INLINE Vector<T> channel_sum(const T* x, std::size_t count, Vector<T> mean) {
  const Tag<T> d;
  constexpr std::size_t kParts = 16 / kLanes<T>;
  Vector<T> part[kParts];
  MAC_UNROLL for (std::size_t p = 0; p < kParts; ++p) part[p] = hn::Zero(d);
  for (std::size_t c = 0; c < count; c += 16) {
    MAC_UNROLL for (std::size_t p = 0; p < kParts; ++p) {
      const std::size_t at = c + p * kLanes<T>;
      if (at >= count) break;
      auto v = hn::Load(d, x + at);
      if (kSquares) {
        v = hn::IfThenElseZero(hn::FirstN(d, count - at), hn::Sub(v, mean));
        part[p] = hn::MulAdd(v, v, part[p]);
      } else {
        part[p] = hn::Add(part[p], v);
      }
    }
  }
  MAC_UNROLL for (std::size_t half = kParts / 2; half > 0; half /= 2) {
    MAC_UNROLL for (std::size_t p = 0; p < half; ++p) part[p] = hn::Add(part[p], part[p + half]);
  }
  return hn::Set(d, fold_lanes(d, part[0]));
}

/// out = (h − mean)/sqrt(variance + 1e-5)·weight + bias
template <class T>
HWY_INLINE void layer_norm(T* out, const T* h, const PackedNorm<T>& w, std::size_t count) {
  const Tag<T> d;
  const auto size = hn::Set(d, static_cast<T>(count));
  const auto mean = hn::Div(channel_sum<T, false>(h, count, hn::Zero(d)), size);
  const auto variance = hn::Div(channel_sum<T, true>(h, count, mean), size);
  const auto scale = hn::Div(hn::Set(d, T(1)), hn::Sqrt(hn::Add(variance, hn::Set(d, T(1e-5)))));
  for (std::size_t c = 0; c < count; c += kLanes<T>) {
    const auto normal = hn::Mul(hn::Sub(hn::Load(d, h + c), mean), scale);
    hn::Store(hn::MulAdd(normal, hn::Load(d, w.weight + c), hn::Load(d, w.bias + c)), d, out + c);
  }
}

/// x = SiLU(bias + Σ_k weight[k] history[k]); the history (d_conv-1, d_inner) takes the new input in
template <class T>
HWY_INLINE void conv_step(T* x, T* history, const T* input, const PackedMamba<T>& w, std::size_t inner,
                          std::size_t padded) {
  const Tag<T> d;
  for (std::size_t c = 0; c < inner; c += kLanes<T>) {
    const std::size_t count = std::min(kLanes<T>, inner - c);
    const auto x0 = load_first(history + c, count);
    const auto x1 = load_first(history + inner + c, count);
    const auto x2 = load_first(history + 2 * inner + c, count);
    const auto x3 = hn::Load(d, input + c);
    store_first(x1, history + c, count);
    store_first(x2, history + inner + c, count);
    store_first(x3, history + 2 * inner + c, count);
    const T* weight = w.conv_weight + c;
    auto v = hn::MulAdd(hn::Load(d, weight), x0, hn::Load(d, w.conv_bias + c));
    v = hn::MulAdd(hn::Load(d, weight + padded), x1, v);
    v = hn::MulAdd(hn::Load(d, weight + 2 * padded), x2, v);
    v = hn::MulAdd(hn::Load(d, weight + 3 * padded), x3, v);
    hn::Store(hn::Mul(v, sigmoid<T>(v)), d, x + c);
  }
}

/// With Δ = softplus(delta): s ← exp(ΔA) s + Δ x B, g = (C·s + D x) SiLU(z); the state s is (d_state,
/// d_inner)
template <class T>
HWY_INLINE void scan_step(T* g, T* state, const T* x, const T* z, const T* delta, const T* B, const T* C,
                          const PackedMamba<T>& w, std::size_t states, std::size_t inner,
                          std::size_t padded) {
  const Tag<T> d;
  for (std::size_t c = 0; c < inner; c += kLanes<T>) {
    const std::size_t count = std::min(kLanes<T>, inner - c);
    const auto input = hn::Load(d, x + c);
    const auto step = softplus<T>(hn::Load(d, delta + c));
    const auto step_input = hn::Mul(step, input);
    auto y = hn::Zero(d);
    for (std::size_t n = 0; n < states; ++n) {
      const auto e = decay<T>(step, hn::Load(d, w.decay_rate + n * padded + c));
      const auto s =
          hn::MulAdd(e, load_first(state + n * inner + c, count), hn::Mul(step_input, hn::Set(d, B[n])));
      store_first(s, state + n * inner + c, count);
      y = hn::MulAdd(hn::Set(d, C[n]), s, y);
    }
    y = hn::MulAdd(hn::Load(d, w.D + c), input, y);
    const auto gate = hn::Load(d, z + c);
    hn::Store(hn::Mul(y, hn::Mul(gate, sigmoid<T>(gate))), d, g + c);
  }
}

/// u ← Mamba(u)
template <class T, std::size_t S>
HWY_INLINE void mamba_step(const PackedNetwork<T>& n, const PackedMamba<T>& w, const Scratch<T>& a, T* state,
                           std::size_t state_stride) {
  const NetworkShape& shape = n.shape;
  const std::size_t inner = shape.d_inner(), rank = shape.dt_rank(), states = shape.d_state;
  linear<T, S>(a.wide, a.stride, a.u, a.stride, w.in_proj);
  for (std::size_t s = 0; s < S; ++s)
    conv_step(a.x + s * a.stride, state + s * state_stride, a.wide + s * a.stride, w, inner, n.inner);
  linear<T, S>(a.narrow, a.stride, a.x, a.stride, w.x_proj);
  linear<T, S>(a.delta, a.stride, a.narrow, a.stride, w.dt_proj);
  for (std::size_t s = 0; s < S; ++s) {
    const T* narrow = a.narrow + s * a.stride;
    scan_step(a.g + s * a.stride, state + s * state_stride + (NetworkShape::d_conv - 1) * inner,
              a.x + s * a.stride, a.wide + n.inner + s * a.stride, a.delta + s * a.stride, narrow + rank,
              narrow + rank + states, w, states, inner, n.inner);
  }
  linear<T, S>(a.u, a.stride, a.g, a.stride, w.out_proj);
}

/// With the gates' parts from the input and from the hidden state, each (3, padded d): hidden and out become
/// n + z (hidden − n), z the update gate, n = tanh(input part + r·hidden part)
template <class T>
HWY_INLINE void gru_gates(T* out, T* hidden, const T* from_input, const T* from_hidden, std::size_t count,
                          std::size_t padded) {
  const Tag<T> d;
  for (std::size_t c = 0; c < count; c += kLanes<T>) {
    const std::size_t lanes = std::min(kLanes<T>, count - c);
    const T *in = from_input + c, *hid = from_hidden + c;
    const auto r = sigmoid<T>(hn::Add(hn::Load(d, in), hn::Load(d, hid)));
    const auto z = sigmoid<T>(hn::Add(hn::Load(d, in + padded), hn::Load(d, hid + padded)));
    const auto n = tanh<T>(hn::MulAdd(r, hn::Load(d, hid + 2 * padded), hn::Load(d, in + 2 * padded)));
    const auto h = hn::MulAdd(z, hn::Sub(load_first(hidden + c, lanes), n), n);
    store_first(h, hidden + c, lanes);
    hn::Store(h, d, out + c);
  }
}

/// u ← GRU(u)
template <class T, std::size_t S>
HWY_INLINE void gru_step(const PackedNetwork<T>& n, const cpu::PackedGru<T>& w, const Scratch<T>& a, T* state,
                         std::size_t state_stride) {
  T* const from_hidden = a.wide + 3 * n.model;
  linear<T, S>(a.wide, a.stride, a.u, a.stride, w.input);
  linear<T, S>(from_hidden, a.stride, state, state_stride, w.hidden);
  for (std::size_t s = 0; s < S; ++s)
    gru_gates(a.u + s * a.stride, state + s * state_stride, a.wide + s * a.stride, from_hidden + s * a.stride,
              n.shape.d_model, n.model);
}

/// One step of S samples.
template <class T, std::size_t S>
void step_tile(const PackedNetwork<T>& n, const T* x, T* y, T* state, T* base) {
  const Tag<T> d;
  const NetworkShape& shape = n.shape;
  const Scratch<T> a(n, base);
  const std::size_t state_stride = shape.state_size();

  linear<T, S>(a.h, a.stride, x, shape.d_in, n.input_proj);
  for (std::size_t s = 0; s < S; ++s) silu_in_place(a.h + s * a.stride, n.model);
  for (const auto& block : n.blocks) {
    for (std::size_t s = 0; s < S; ++s)
      layer_norm(a.u + s * a.stride, a.h + s * a.stride, block.norm, shape.d_model);
    if (shape.kind == LayerKind::mamba)
      mamba_step<T, S>(n, block.mamba, a, state, state_stride);
    else
      gru_step<T, S>(n, block.gru, a, state, state_stride);
    for (std::size_t s = 0; s < S; ++s)
      for (std::size_t c = s * a.stride; c < s * a.stride + n.model; c += kLanes<T>)
        hn::Store(hn::Add(hn::Load(d, a.h + c), hn::Load(d, a.u + c)), d, a.h + c);
    state += state_stride / shape.n_blocks;
  }
  for (std::size_t s = 0; s < S; ++s)
    layer_norm(a.u + s * a.stride, a.h + s * a.stride, n.norm, shape.d_model);
  linear<T, S>(a.h, a.stride, a.u, a.stride, n.hidden_proj);
  for (std::size_t s = 0; s < S; ++s) silu_in_place(a.h + s * a.stride, n.model);
  linear<T, S>(a.y, a.stride, a.h, a.stride, n.output_proj);
  for (std::size_t s = 0; s < S; ++s) std::copy_n(a.y + s * a.stride, shape.d_out, y + s * shape.d_out);
}

template <class T>
void step(const PackedNetwork<T>& n, std::size_t count, const T* x, T* y, T* state, T* scratch) {
  const std::size_t d_in = n.shape.d_in, d_out = n.shape.d_out, state_size = n.shape.state_size();
  std::size_t b = 0;
  for (; b + kStepTile <= count; b += kStepTile)
    step_tile<T, kStepTile>(n, x + b * d_in, y + b * d_out, state + b * state_size, scratch);
  for (; b < count; ++b) step_tile<T, 1>(n, x + b * d_in, y + b * d_out, state + b * state_size, scratch);
}

cpu::StepKernels<float> step_kernels_float() { return {kLanes<float>, &step<float>}; }
cpu::StepKernels<double> step_kernels_double() { return {kLanes<double>, &step<double>}; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(cpu::StepKernels<float>, cpu::step_kernels<float>, step_kernels_float)
MAC_DISPATCH(cpu::StepKernels<double>, cpu::step_kernels<double>, step_kernels_double)
}  // namespace mac
#endif
