// Linear layers: y = W x + b, forward and backward.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/cpu/linear.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/lane_sum-inl.hpp"
#include "network/cpu/linear-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void linear_forward(Rows<T> out, Rows<const T> residual, Rows<const T> in, const T* weight, const T* bias,
                    std::size_t rows, std::size_t inputs, std::size_t outputs) {
  affine<T>({out, residual, in, {weight, inputs, 1}, bias, inputs}, rows, outputs);
}

/// The transposed matrix: what were outputs are summed over now.
template <class T>
void linear_backward_input(Rows<T> d_in, Rows<const T> residual, Rows<const T> d_out, const T* weight,
                           std::size_t rows, std::size_t inputs, std::size_t outputs) {
  affine<T>({d_in, residual, d_out, {weight, 1, inputs}, nullptr, outputs}, rows, inputs);
}

/// d_weight[o][i] += Σ_t Σ_lane d_out[t][o] in[t][i] for a tile of O outputs and I inputs
template <class T, std::size_t O, std::size_t I>
HWY_INLINE void weight_tile(T* d_weight, Rows<const T> d_out, Rows<const T> in, std::size_t rows,
                            std::size_t inputs, std::size_t o, std::size_t i) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  Vector<T> sum[O][I];
  MAC_UNROLL for (std::size_t j = 0; j < O; ++j) {
    MAC_UNROLL for (std::size_t k = 0; k < I; ++k) sum[j][k] = hn::Zero(d);
  }
  for (std::size_t t = 0; t < rows; ++t) {
    const T *g = d_out.row(t) + o * W, *x = in.row(t) + i * W;
    Vector<T> column[I];
    MAC_UNROLL for (std::size_t k = 0; k < I; ++k) column[k] = hn::Load(d, x + k * W);
    MAC_UNROLL for (std::size_t j = 0; j < O; ++j) {
      const auto gradient = hn::Load(d, g + j * W);
      MAC_UNROLL for (std::size_t k = 0; k < I; ++k) sum[j][k] = hn::MulAdd(gradient, column[k], sum[j][k]);
    }
  }
  MAC_UNROLL for (std::size_t j = 0; j < O; ++j) add_lane_sums<T, I>(d_weight + (o + j) * inputs + i, sum[j]);
}

template <class T, std::size_t O>
HWY_INLINE void weight_rows(T* d_weight, Rows<const T> d_out, Rows<const T> in, std::size_t rows,
                            std::size_t inputs, std::size_t o) {
  std::size_t i = 0;
  for (; i + 4 <= inputs; i += 4) weight_tile<T, O, 4>(d_weight, d_out, in, rows, inputs, o, i);
  switch (inputs - i) {
    case 3:
      return weight_tile<T, O, 3>(d_weight, d_out, in, rows, inputs, o, i);
    case 2:
      return weight_tile<T, O, 2>(d_weight, d_out, in, rows, inputs, o, i);
    case 1:
      return weight_tile<T, O, 1>(d_weight, d_out, in, rows, inputs, o, i);
    default:
      return;
  }
}

template <class T>
void linear_backward_weight(T* d_weight, T* d_bias, Rows<const T> d_out, Rows<const T> in, std::size_t rows,
                            std::size_t inputs, std::size_t outputs) {
  const Tag<T> d;
#if HWY_TARGET == HWY_AVX3  // 24 sums in 32 registers
  constexpr std::size_t kOutputs = 6;
#else
  constexpr std::size_t kOutputs = 3;
#endif
  std::size_t o = 0;
  for (; o + kOutputs <= outputs; o += kOutputs)
    weight_rows<T, kOutputs>(d_weight, d_out, in, rows, inputs, o);
  for (; o + 2 <= outputs; o += 2) weight_rows<T, 2>(d_weight, d_out, in, rows, inputs, o);
  for (; o < outputs; ++o) weight_rows<T, 1>(d_weight, d_out, in, rows, inputs, o);
  if (!d_bias) return;
  for (o = 0; o < outputs; ++o) {
    Vector<T> sum[1] = {hn::Zero(d)};
    for (std::size_t t = 0; t < rows; ++t)
      sum[0] = hn::Add(sum[0], hn::Load(d, d_out.row(t) + o * kLanes<T>));
    add_lane_sums<T, 1>(d_bias + o, sum);
  }
}

template <class T>
cpu::LinearKernels<T> table() {
  return {&linear_forward<T>, &linear_backward_input<T>, &linear_backward_weight<T>};
}
cpu::LinearKernels<float> linear_table_float() { return table<float>(); }
cpu::LinearKernels<double> linear_table_double() { return table<double>(); }
std::size_t lanes_float() { return kLanes<float>; }
std::size_t lanes_double() { return kLanes<double>; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(cpu::LinearKernels<float>, cpu::linear_kernels<float>, linear_table_float)
MAC_DISPATCH(cpu::LinearKernels<double>, cpu::linear_kernels<double>, linear_table_double)
MAC_DISPATCH(std::size_t, cpu::kernel_lanes<float>, lanes_float)
MAC_DISPATCH(std::size_t, cpu::kernel_lanes<double>, lanes_double)
}  // namespace mac
#endif
