// SiLU and LayerNorm over channels, forward and backward.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/cpu/pointwise.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/kernels.hpp"
#include "network/cpu/lane_sum-inl.hpp"
#include "network/cpu/unroll.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

using cpu::Rows;

template <class T>
void silu_forward(Rows<T> out, Rows<T> slope, Rows<const T> in, std::size_t rows, std::size_t channels) {
  const Tag<T> d;
  for (std::size_t t = 0; t < rows; ++t)
    for (std::size_t c = 0; c < channels * kLanes<T>; c += kLanes<T>) {
      const auto x = hn::Load(d, in.row(t) + c), s = sigmoid<T>(x), y = hn::Mul(x, s);
      if (slope.data) hn::Store(hn::NegMulAdd(y, s, hn::Add(s, y)), d, slope.row(t) + c);  // s + y (1 − s)
      hn::Store(y, d, out.row(t) + c);
    }
}

template <class T>
void multiply(Rows<T> d_out, Rows<const T> slope, std::size_t rows, std::size_t channels) {
  const Tag<T> d;
  for (std::size_t t = 0; t < rows; ++t)
    for (std::size_t c = 0; c < channels * kLanes<T>; c += kLanes<T>)
      hn::Store(hn::Mul(hn::Load(d, d_out.row(t) + c), hn::Load(d, slope.row(t) + c)), d, d_out.row(t) + c);
}

template <class T>
void add(Rows<T> out, Rows<const T> a, Rows<const T> b, std::size_t rows, std::size_t channels) {
  const Tag<T> d;
  for (std::size_t t = 0; t < rows; ++t)
    for (std::size_t c = 0; c < channels * kLanes<T>; c += kLanes<T>)
      hn::Store(hn::Add(hn::Load(d, a.row(t) + c), hn::Load(d, b.row(t) + c)), d, out.row(t) + c);
}

/// Σ_c term(c): channels 0, 16, 32, ... go into the first of 16 partial sums and so on; those are folded by
/// halves. The same order as in step mode, where channels lie in lanes.
template <class T, class Term>
HWY_INLINE Vector<T> channel_sum(std::size_t channels, const Term& term) {
  Vector<T> part[16];
  MAC_UNROLL for (std::size_t p = 0; p < 16; ++p) part[p] = hn::Zero(Tag<T>());
  for (std::size_t c = 0; c < channels; c += 16) {
    MAC_UNROLL for (std::size_t p = 0; p < 16; ++p) if (c + p < channels) part[p] = term(c + p, part[p]);
  }
  MAC_UNROLL for (std::size_t p = 0; p < 8; ++p) part[p] = hn::Add(part[p], part[p + 8]);
  MAC_UNROLL for (std::size_t p = 0; p < 4; ++p) part[p] = hn::Add(part[p], part[p + 4]);
  return hn::Add(hn::Add(part[0], part[2]), hn::Add(part[1], part[3]));
}

/// part + x[c]
template <class T>
struct AddChannel {
  const T* x;
  HWY_INLINE Vector<T> operator()(std::size_t c, Vector<T> part) const {
    return hn::Add(part, hn::Load(Tag<T>(), x + c * kLanes<T>));
  }
};

/// part + (x[c] − mean)²
template <class T>
struct AddSquare {
  const T* x;
  Vector<T> mean;
  HWY_INLINE Vector<T> operator()(std::size_t c, Vector<T> part) const {
    const auto difference = hn::Sub(hn::Load(Tag<T>(), x + c * kLanes<T>), mean);
    return hn::MulAdd(difference, difference, part);
  }
};

template <class T>
void norm_forward(Rows<T> out, Rows<T> stats, Rows<const T> in, const T* weight, const T* bias,
                  std::size_t rows, std::size_t channels) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const auto size = hn::Set(d, static_cast<T>(channels));
  for (std::size_t t = 0; t < rows; ++t) {
    const T* x = in.row(t);
    const auto mean = hn::Div(channel_sum<T>(channels, AddChannel<T>{x}), size);
    const auto variance = hn::Div(channel_sum<T>(channels, AddSquare<T>{x, mean}), size);
    const auto scale = hn::Div(hn::Set(d, T(1)), hn::Sqrt(hn::Add(variance, hn::Set(d, T(1e-5)))));
    hn::Store(mean, d, stats.row(t));
    hn::Store(scale, d, stats.row(t) + W);
    for (std::size_t c = 0; c < channels; ++c) {
      const auto normal = hn::Mul(hn::Sub(hn::Load(d, x + c * W), mean), scale);
      hn::Store(hn::MulAdd(normal, hn::Set(d, weight[c]), hn::Set(d, bias[c])), d, out.row(t) + c * W);
    }
  }
}

/// With n = (x − mean)·scale and g = d_out·weight: d_in += scale (g − mean(g) − n mean(g n))
template <class T>
HWY_INLINE void norm_backward_row(T* d_in, const T* d_out, const T* x, Vector<T> mean, Vector<T> scale,
                                  const T* weight, std::size_t channels) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  auto sum = hn::Zero(d), product = hn::Zero(d);
  for (std::size_t c = 0; c < channels; ++c) {
    const auto n = hn::Mul(hn::Sub(hn::Load(d, x + c * W), mean), scale);
    const auto g = hn::Mul(hn::Load(d, d_out + c * W), hn::Set(d, weight[c]));
    sum = hn::Add(sum, g);
    product = hn::MulAdd(g, n, product);
  }
  const auto size = hn::Set(d, static_cast<T>(channels));
  sum = hn::Div(sum, size);
  product = hn::Div(product, size);
  for (std::size_t c = 0; c < channels; ++c) {
    const auto n = hn::Mul(hn::Sub(hn::Load(d, x + c * W), mean), scale);
    const auto g = hn::Mul(hn::Load(d, d_out + c * W), hn::Set(d, weight[c]));
    const auto centred = hn::NegMulAdd(n, product, hn::Sub(g, sum));
    hn::Store(hn::MulAdd(scale, centred, hn::Load(d, d_in + c * W)), d, d_in + c * W);
  }
}

template <class T>
void norm_backward(Rows<T> d_in, T* d_weight, T* d_bias, Rows<const T> d_out, Rows<const T> in,
                   Rows<const T> stats, const T* weight, std::size_t rows, std::size_t channels) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  for (std::size_t t = 0; t < rows; ++t)
    norm_backward_row(d_in.row(t), d_out.row(t), in.row(t), hn::Load(d, stats.row(t)),
                      hn::Load(d, stats.row(t) + W), weight, channels);
  for (std::size_t c = 0; c < channels; ++c) {
    Vector<T> for_weight[1] = {hn::Zero(d)}, for_bias[1] = {hn::Zero(d)};
    for (std::size_t t = 0; t < rows; ++t) {
      const auto mean = hn::Load(d, stats.row(t)), scale = hn::Load(d, stats.row(t) + W);
      const auto n = hn::Mul(hn::Sub(hn::Load(d, in.row(t) + c * W), mean), scale);
      const auto g = hn::Load(d, d_out.row(t) + c * W);
      for_weight[0] = hn::MulAdd(g, n, for_weight[0]);
      for_bias[0] = hn::Add(for_bias[0], g);
    }
    add_lane_sums<T, 1>(d_weight + c, for_weight);
    add_lane_sums<T, 1>(d_bias + c, for_bias);
  }
}

template <class T>
cpu::PointwiseKernels<T> table() {
  return {&silu_forward<T>, &multiply<T>, &add<T>, &norm_forward<T>, &norm_backward<T>};
}
cpu::PointwiseKernels<float> pointwise_table_float() { return table<float>(); }
cpu::PointwiseKernels<double> pointwise_table_double() { return table<double>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(cpu::PointwiseKernels<float>, cpu::pointwise_kernels<float>, pointwise_table_float)
MAC_DISPATCH(cpu::PointwiseKernels<double>, cpu::pointwise_kernels<double>, pointwise_table_double)
}  // namespace mac
#endif
