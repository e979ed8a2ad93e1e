// One time step of the network with channels in lanes, for up to kStepTile samples at once.
//
// The order of every sum is that of the sequence kernels, see step_layers-inl.hpp; LayerNorm sums channels 0,
// 16, 32, ... into the first of 16 partial sums and so on and folds those by halves.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/cpu/step_kernels.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/step_layers-inl.hpp"

#ifndef MAC_NETWORK_CPU_STEP_KERNELS_ONCE
#define MAC_NETWORK_CPU_STEP_KERNELS_ONCE
#include <algorithm>

#include "network/cpu/step.hpp"
#endif

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

using cpu::PackedNetwork;
using cpu::PackedNorm;

/// The activations of the samples of a tile; those of sample s lie `stride·s` behind the pointers.
template <class T>
struct Scratch {
  T* h;     // (padded d_model) residual stream
  T* u;     // (padded d_model) input of a layer
  T* work;  // the layer's own
  T* y;     // (padded d_out)
  std::size_t stride;

  Scratch(const PackedNetwork<T>& n, T* base)
      : h(base),
        u(h + n.model),
        work(u + n.model),
        y(work + n.layers->scratch_size()),
        stride(n.scratch_size()) {}
};

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

/// One step of S samples.
template <class T, std::size_t S>
void step_tile(const PackedNetwork<T>& n, const T* x, T* y, T* state, T* base) {
  const Tag<T> d;
  const NetworkShape& shape = n.shape;
  const Scratch<T> a(n, base);
  const StepTile<T> tile{a.u, a.work, a.stride};

  linear<T, S>(a.h, a.stride, x, shape.d_in, n.input_proj);
  for (std::size_t s = 0; s < S; ++s) silu_in_place(a.h + s * a.stride, n.model);
  for (std::size_t i = 0; i < n.norms.size(); ++i) {
    for (std::size_t s = 0; s < S; ++s)
      layer_norm(a.u + s * a.stride, a.h + s * a.stride, n.norms[i], shape.d_model);
    n.layers->step(i, S, tile, state, n.state_size);
    for (std::size_t s = 0; s < S; ++s)
      for (std::size_t c = s * a.stride; c < s * a.stride + n.model; c += kLanes<T>)
        hn::Store(hn::Add(hn::Load(d, a.h + c), hn::Load(d, a.u + c)), d, a.h + c);
    state += n.block_state;
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
  const std::size_t d_in = n.shape.d_in, d_out = n.shape.d_out, state_size = n.state_size;
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
