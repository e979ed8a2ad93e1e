// The inside of a selective block between its linear layers: convolution, step size, gate (the scans are in
// scan-inl.hpp).
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/selective/cpu/channels.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/lane_sum-inl.hpp"
#include "network/cpu/unroll.hpp"
#include "network/selective/cpu/kernels.hpp"

#ifndef MAC_NETWORK_SELECTIVE_CPU_CHANNELS_ONCE
#define MAC_NETWORK_SELECTIVE_CPU_CHANNELS_ONCE
#include "network/selective/layer.hpp"
#endif

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

using cpu::Rows;

constexpr std::size_t kTaps = selective::Sizes::d_conv;

template <class T>
void conv_forward(Rows<T> out, Rows<T> slope, Rows<const T> in, const T* weight, const T* bias,
                  std::size_t rows, std::size_t inner) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  for (std::size_t t = 0; t < rows; ++t)
    for (std::size_t c = 0; c < inner; ++c) {
      auto v = hn::Set(d, bias[c]);
      MAC_UNROLL for (std::size_t k = 0; k < kTaps; ++k) v =
          hn::MulAdd(hn::Set(d, weight[c * kTaps + k]), hn::Load(d, in.row(t + k) + c * W), v);
      const auto s = sigmoid<T>(v), y = hn::Mul(v, s);
      if (slope.data) hn::Store(hn::NegMulAdd(y, s, hn::Add(s, y)), d, slope.row(t) + c * W);
      hn::Store(y, d, out.row(t) + c * W);
    }
}

/// d_in[r] = Σ_k weight[k] d_out[r − k] (+ later, for the last rows); d_weight[k] = Σ_t d_out[t] in[t + k]
template <class T>
void conv_backward(Rows<T> d_in, T* d_weight, T* d_bias, Rows<const T> d_out, Rows<const T> in,
                   const T* later, const T* weight, std::size_t rows, std::size_t inner) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  for (std::size_t r = 0; r < rows + kTaps - 1; ++r)
    for (std::size_t c = 0; c < inner; ++c) {
      auto sum = r >= rows ? hn::Load(d, later + ((r - rows) * inner + c) * W) : hn::Zero(d);
      MAC_UNROLL for (std::size_t k = 0; k < kTaps; ++k) if (r >= k && r - k < rows) sum =
          hn::MulAdd(hn::Set(d, weight[c * kTaps + k]), hn::Load(d, d_out.row(r - k) + c * W), sum);
      hn::Store(sum, d, d_in.row(r) + c * W);
    }
  for (std::size_t c = 0; c < inner; ++c) {
    Vector<T> taps[kTaps], total[1] = {hn::Zero(d)};
    MAC_UNROLL for (std::size_t k = 0; k < kTaps; ++k) taps[k] = hn::Zero(d);
    for (std::size_t t = 0; t < rows; ++t) {
      const auto g = hn::Load(d, d_out.row(t) + c * W);
      MAC_UNROLL for (std::size_t k = 0; k < kTaps; ++k) taps[k] =
          hn::MulAdd(g, hn::Load(d, in.row(t + k) + c * W), taps[k]);
      total[0] = hn::Add(total[0], g);
    }
    add_lane_sums<T, kTaps>(d_weight + c * kTaps, taps);
    add_lane_sums<T, 1>(d_bias + c, total);
  }
}

template <class T>
void softplus_forward(Rows<T> delta, Rows<T> slope, std::size_t rows, std::size_t inner) {
  const Tag<T> d;
  for (std::size_t t = 0; t < rows; ++t)
    for (std::size_t c = 0; c < inner * kLanes<T>; c += kLanes<T>) {
      const auto x = hn::Load(d, delta.row(t) + c);
      if (slope.data) {
        Vector<T> derivative;
        hn::Store(softplus<T>(x, derivative), d, delta.row(t) + c);
        hn::Store(derivative, d, slope.row(t) + c);
      } else {
        hn::Store(softplus<T>(x), d, delta.row(t) + c);
      }
    }
}

template <class T>
void gate_forward(Rows<T> g, Rows<const T> y, Rows<const T> z, std::size_t rows, std::size_t inner) {
  const Tag<T> d;
  for (std::size_t t = 0; t < rows; ++t)
    for (std::size_t c = 0; c < inner * kLanes<T>; c += kLanes<T>) {
      const auto v = hn::Load(d, z.row(t) + c);
      hn::Store(hn::Mul(hn::Load(d, y.row(t) + c), hn::Mul(v, sigmoid<T>(v))), d, g.row(t) + c);
    }
}

template <class T>
void gate_backward_y(Rows<T> d_y, Rows<const T> d_g, Rows<const T> gate, std::size_t rows,
                     std::size_t inner) {
  const Tag<T> d;
  for (std::size_t t = 0; t < rows; ++t)
    for (std::size_t c = 0; c < inner * kLanes<T>; c += kLanes<T>)
      hn::Store(hn::Mul(hn::Load(d, d_g.row(t) + c), hn::Load(d, gate.row(t) + c)), d, d_y.row(t) + c);
}

template <class T>
void gate_backward_z(Rows<T> d_z, Rows<T> g, Rows<const T> d_g, Rows<const T> y, Rows<const T> gate,
                     Rows<const T> slope, std::size_t rows, std::size_t inner) {
  const Tag<T> d;
  for (std::size_t t = 0; t < rows; ++t)
    for (std::size_t c = 0; c < inner * kLanes<T>; c += kLanes<T>) {
      const auto value = hn::Load(d, y.row(t) + c);
      hn::Store(hn::Mul(value, hn::Load(d, gate.row(t) + c)), d, g.row(t) + c);
      hn::Store(hn::Mul(hn::Mul(hn::Load(d, d_g.row(t) + c), value), hn::Load(d, slope.row(t) + c)), d,
                d_z.row(t) + c);
    }
}

template <class T>
selective::ChannelKernels<T> table() {
  return {&conv_forward<T>, &conv_backward<T>,   &softplus_forward<T>,
          &gate_forward<T>, &gate_backward_y<T>, &gate_backward_z<T>};
}
selective::ChannelKernels<float> channel_table_float() { return table<float>(); }
selective::ChannelKernels<double> channel_table_double() { return table<double>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(selective::ChannelKernels<float>, selective::channel_kernels<float>, channel_table_float)
MAC_DISPATCH(selective::ChannelKernels<double>, selective::channel_kernels<double>, channel_table_double)
}  // namespace mac
#endif
