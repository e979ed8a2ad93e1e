// The selective scan of a Mamba block, one channel at a time over the rows of a chunk:
//
//   s_t = e_t s_{t−1} + Δ_t x_t B_t,  e_t = exp(Δ_t A),  y_t = C_t·s_t + D x_t
//
// s, e, A, B and C have d_state entries, summed over in ascending order.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/cpu/scan.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/kernels.hpp"
#include "network/cpu/lane_sum-inl.hpp"
#include "network/cpu/unroll.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

using cpu::Rows;
using cpu::ScanInput;

template <class T>
void scan_forward(Rows<T> y, T* state, const ScanInput<T>& in) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  for (std::size_t c = 0; c < in.inner; ++c) {
    const T* rate = in.decay_rate + c * in.states;
    T* s = state + c * in.states * W;
    const auto skip = hn::Set(d, in.D[c]);
    for (std::size_t t = 0; t < in.rows; ++t) {
      const auto delta = hn::Load(d, in.delta.row(t) + c * W), x = hn::Load(d, in.x.row(t) + c * W);
      const auto delta_x = hn::Mul(delta, x);
      const T *B = in.B.row(t), *C = in.C.row(t);
      auto sum = hn::Zero(d);
      for (std::size_t n = 0; n < in.states; ++n) {
        const auto e = decay<T>(delta, hn::Set(d, rate[n]));
        const auto next = hn::MulAdd(e, hn::Load(d, s + n * W), hn::Mul(delta_x, hn::Load(d, B + n * W)));
        hn::Store(next, d, s + n * W);
        sum = hn::MulAdd(hn::Load(d, C + n * W), next, sum);
      }
      hn::Store(hn::MulAdd(skip, x, sum), d, y.row(t) + c * W);
    }
  }
}

/// scan_forward of channel c that keeps e_t (rows, states) and s_t (rows + 1, states), s_0 the state before.
template <class T>
HWY_INLINE void scan_again(T* y, std::size_t y_stride, T* decays, T* history, const T* state,
                           const ScanInput<T>& in, std::size_t c) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const std::size_t states = in.states;
  const T* rate = in.decay_rate + c * states;
  const auto skip = hn::Set(d, in.D[c]);
  for (std::size_t n = 0; n < states; ++n) hn::Store(hn::Load(d, state + n * W), d, history + n * W);
  for (std::size_t t = 0; t < in.rows; ++t) {
    const auto delta = hn::Load(d, in.delta.row(t) + c * W), x = hn::Load(d, in.x.row(t) + c * W);
    const auto delta_x = hn::Mul(delta, x);
    const T *B = in.B.row(t), *C = in.C.row(t);
    T *e_row = decays + t * states * W, *s = history + t * states * W, *next_row = s + states * W;
    auto sum = hn::Zero(d);
    for (std::size_t n = 0; n < states; ++n) {
      const auto e = decay<T>(delta, hn::Set(d, rate[n]));
      const auto next = hn::MulAdd(e, hn::Load(d, s + n * W), hn::Mul(delta_x, hn::Load(d, B + n * W)));
      hn::Store(e, d, e_row + n * W);
      hn::Store(next, d, next_row + n * W);
      sum = hn::MulAdd(hn::Load(d, C + n * W), next, sum);
    }
    hn::Store(hn::MulAdd(skip, x, sum), d, y + t * y_stride);
  }
}

/// Backwards through N states from n on of channel c: the gradients of those states and rates stay in
/// registers. d_delta and d_x of the channel are added to.
template <class T, std::size_t N>
HWY_INLINE void scan_back_tile(const cpu::ScanGradient<T>& out, Rows<const T> d_y, const T* decays,
                               const T* history, const ScanInput<T>& in, std::size_t c, std::size_t n) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const std::size_t states = in.states;
  const T* rate = in.decay_rate + c * states + n;
  T* const d_state = out.state + (c * states + n) * W;
  Vector<T> d_s[N], d_rate[N], s[N];
  MAC_UNROLL for (std::size_t k = 0; k < N; ++k) {
    d_s[k] = hn::Load(d, d_state + k * W);
    d_rate[k] = hn::Zero(d);
    s[k] = hn::Load(d, history + (in.rows * states + n + k) * W);
  }
  for (std::size_t t = in.rows; t-- > 0;) {
    const auto g = hn::Load(d, d_y.row(t) + c * W);
    const auto delta = hn::Load(d, in.delta.row(t) + c * W), x = hn::Load(d, in.x.row(t) + c * W);
    const auto delta_x = hn::Mul(delta, x);
    const T *B = in.B.row(t) + n * W, *C = in.C.row(t) + n * W;
    T *d_B = out.B.row(t) + n * W, *d_C = out.C.row(t) + n * W;
    const T *e = decays + (t * states + n) * W, *before = history + (t * states + n) * W;
    auto d_delta_x = hn::Zero(d), d_exponent = hn::Zero(d);
    MAC_UNROLL for (std::size_t k = 0; k < N; ++k) {
      hn::Store(hn::MulAdd(g, s[k], hn::Load(d, d_C + k * W)), d, d_C + k * W);
      d_s[k] = hn::MulAdd(g, hn::Load(d, C + k * W), d_s[k]);
      hn::Store(hn::MulAdd(d_s[k], delta_x, hn::Load(d, d_B + k * W)), d, d_B + k * W);
      d_delta_x = hn::MulAdd(d_s[k], hn::Load(d, B + k * W), d_delta_x);
      d_s[k] = hn::Mul(d_s[k], hn::Load(d, e + k * W));
      s[k] = hn::Load(d, before + k * W);
      const auto q = hn::Mul(d_s[k], s[k]);  // gradient of the exponent Δ A
      d_exponent = hn::MulAdd(q, hn::Set(d, rate[k]), d_exponent);
      d_rate[k] = hn::MulAdd(q, delta, d_rate[k]);
    }
    T *d_delta = out.delta.row(t) + c * W, *d_x = out.x.row(t) + c * W;
    d_exponent =
        hn::Mul(d_exponent, hn::Set(d, static_cast<T>(0.69314718055994530942)));  // rate is A·log2(e)
    hn::Store(hn::MulAdd(d_delta_x, x, hn::Add(hn::Load(d, d_delta), d_exponent)), d, d_delta);
    hn::Store(hn::MulAdd(d_delta_x, delta, hn::Load(d, d_x)), d, d_x);
  }
  HWY_ALIGN T d_A[4] = {};
  MAC_UNROLL for (std::size_t k = 0; k < N; ++k) hn::Store(d_s[k], d, d_state + k * W);
  add_lane_sums<T, N>(d_A, d_rate);
  // dA/dA_log = A
  for (std::size_t k = 0; k < N; ++k)
    out.A_log[c * states + n + k] += d_A[k] * rate[k] * static_cast<T>(0.69314718055994530942);
}

template <class T>
void scan_backward(const cpu::ScanGradient<T>& out, Rows<T> y, Rows<const T> d_y, const T* state, T* scratch,
                   const ScanInput<T>& in) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const std::size_t states = in.states;
  T *decays = scratch, *history = scratch + in.rows * states * W;
  for (std::size_t t = 0; t < in.rows; ++t)
    for (std::size_t n = 0; n < states * W; n += W) {
      hn::Store(hn::Zero(d), d, out.B.row(t) + n);
      hn::Store(hn::Zero(d), d, out.C.row(t) + n);
    }
  for (std::size_t c = 0; c < in.inner; ++c) {
    Vector<T> d_D[1] = {hn::Zero(d)};
    const auto skip = hn::Set(d, in.D[c]);
    for (std::size_t t = 0; t < in.rows; ++t) {
      const auto g = hn::Load(d, d_y.row(t) + c * W);
      hn::Store(hn::Mul(skip, g), d, out.x.row(t) + c * W);
      hn::Store(hn::Zero(d), d, out.delta.row(t) + c * W);
      d_D[0] = hn::MulAdd(g, hn::Load(d, in.x.row(t) + c * W), d_D[0]);
    }
    add_lane_sums<T, 1>(out.D + c, d_D);
    scan_again(y.data + c * W, y.stride, decays, history, state + c * states * W, in, c);
    std::size_t n = 0;
    for (; n + 4 <= states; n += 4) scan_back_tile<T, 4>(out, d_y, decays, history, in, c, n);
    for (; n < states; ++n) scan_back_tile<T, 1>(out, d_y, decays, history, in, c, n);
  }
}

template <class T>
cpu::ScanKernels<T> table() {
  return {&scan_forward<T>, &scan_backward<T>};
}
cpu::ScanKernels<float> scan_table_float() { return table<float>(); }
cpu::ScanKernels<double> scan_table_double() { return table<double>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
HWY_EXPORT(scan_table_float);
HWY_EXPORT(scan_table_double);

namespace cpu {

template <>
ScanKernels<float> scan_kernels<float>() {
  return HWY_DYNAMIC_DISPATCH(scan_table_float)();
}
template <>
ScanKernels<double> scan_kernels<double>() {
  return HWY_DYNAMIC_DISPATCH(scan_table_double)();
}

}  // namespace cpu
}  // namespace mac
#endif
