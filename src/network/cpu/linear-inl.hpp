// out[t][o] = residual[t][o] + (bias[o] + Σ_i W(o, i) in[t][i]) in register tiles of outputs × time points:
// each broadcast weight serves several time points, each loaded activation several outputs. The sum starts at
// the bias and takes the inputs in ascending order, in every tile shape.
#if defined(MAC_NETWORK_CPU_LINEAR_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAC_NETWORK_CPU_LINEAR_INL_
#undef MAC_NETWORK_CPU_LINEAR_INL_
#else
#define MAC_NETWORK_CPU_LINEAR_INL_
#endif

#include "network/cpu/kernels.hpp"
#include "network/cpu/unroll.hpp"
#include "network/cpu/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {

using cpu::Rows;

/// Element (o, i) of W or of its transpose.
template <class T>
struct Matrix {
  const T* data;
  std::size_t output_stride;
  std::size_t input_stride;
};

template <class T>
struct Affine {
  Rows<T> out;
  Rows<const T> residual;
  Rows<const T> in;
  Matrix<T> weight;
  const T* bias;
  std::size_t inputs;
};

#if HWY_TARGET == HWY_AVX3  // 32 registers: 24 sums, 6 activations, 1 weight
constexpr std::size_t kTileOutputs = 4;
#else
constexpr std::size_t kTileOutputs = 2;
#endif
constexpr std::size_t kTileRows = 6;

template <class T, std::size_t O, std::size_t R>
HWY_INLINE void affine_tile(const Affine<T>& a, std::size_t t, std::size_t o) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  Vector<T> sum[O][R];
  MAC_UNROLL for (std::size_t j = 0; j < O; ++j) {
    const auto bias = a.bias ? hn::Set(d, a.bias[o + j]) : hn::Zero(d);
    MAC_UNROLL for (std::size_t r = 0; r < R; ++r) sum[j][r] = bias;
  }
  const T* in = a.in.row(t);
  const T* weight = a.weight.data + o * a.weight.output_stride;
  for (std::size_t i = 0; i < a.inputs; ++i, in += W, weight += a.weight.input_stride) {
    Vector<T> x[R];
    MAC_UNROLL for (std::size_t r = 0; r < R; ++r) x[r] = hn::Load(d, in + r * a.in.stride);
    MAC_UNROLL for (std::size_t j = 0; j < O; ++j) {
      const auto w = hn::Set(d, weight[j * a.weight.output_stride]);
      MAC_UNROLL for (std::size_t r = 0; r < R; ++r) sum[j][r] = hn::MulAdd(w, x[r], sum[j][r]);
    }
  }
  MAC_UNROLL for (std::size_t r = 0; r < R; ++r) {
    MAC_UNROLL for (std::size_t j = 0; j < O; ++j) {
      const std::size_t at = (o + j) * W;
      const auto value =
          a.residual.data ? hn::Add(hn::Load(d, a.residual.row(t + r) + at), sum[j][r]) : sum[j][r];
      hn::Store(value, d, a.out.row(t + r) + at);
    }
  }
}

template <class T, std::size_t R>
HWY_INLINE void affine_rows(const Affine<T>& a, std::size_t t, std::size_t outputs) {
  std::size_t o = 0;
  if constexpr (R == 1)
    for (; o + 8 <= outputs; o += 8) affine_tile<T, 8, R>(a, t, o);
  for (; o + kTileOutputs <= outputs; o += kTileOutputs) affine_tile<T, kTileOutputs, R>(a, t, o);
  if constexpr (kTileOutputs > 2)
    for (; o + 2 <= outputs; o += 2) affine_tile<T, 2, R>(a, t, o);
  for (; o < outputs; ++o) affine_tile<T, 1, R>(a, t, o);
}

template <class T>
HWY_INLINE void affine(const Affine<T>& a, std::size_t rows, std::size_t outputs) {
  std::size_t t = 0;
  for (; t + kTileRows <= rows; t += kTileRows) affine_rows<T, kTileRows>(a, t, outputs);
  for (; t + 3 <= rows; t += 3) affine_rows<T, 3>(a, t, outputs);
  for (; t < rows; ++t) affine_rows<T, 1>(a, t, outputs);
}

}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#endif
