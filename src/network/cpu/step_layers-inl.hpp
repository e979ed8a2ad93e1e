// What the steps of all kinds of layer are made of: a packed linear layer, SiLU.
//
// The order of every sum is that of the sequence kernels: a linear layer adds its inputs in ascending order
// to the bias. So a step gives the bits of the sequence mode, for any batch.
#if defined(MAC_NETWORK_CPU_STEP_LAYERS_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAC_NETWORK_CPU_STEP_LAYERS_INL_
#undef MAC_NETWORK_CPU_STEP_LAYERS_INL_
#else
#define MAC_NETWORK_CPU_STEP_LAYERS_INL_
#endif

#include "network/cpu/packer.hpp"
#include "network/cpu/step_blocks.hpp"
#include "network/cpu/unroll.hpp"
#include "network/cpu/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {

using cpu::kStepTile;
using cpu::PackedLinear;
using cpu::StepTile;

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

/// Not in an unnamed namespace: the kinds' files share one copy, which keeps the runtime library small.
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

}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#endif
