// The selective scan of a Mamba block, one channel at a time over the rows of a chunk:
//
//   s_t = e_t s_{t−1} + Δ_t x_t B_t,  e_t = exp(Δ_t A),  y_t = C_t·s_t + D x_t
//
// s, e, A, B and C have d_state entries, summed over in ascending order.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/kinds/mamba/cpu/scan.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include <algorithm>

#include "network/cpu/lane_sum-inl.hpp"
#include "network/cpu/unroll.hpp"
#include "network/kinds/mamba/cpu/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

using cpu::Rows;
using mamba::ScanRows;

template <class T>
void scan_forward(Rows<T> y, T* state, const ScanRows<T>& input) {
  const ScanRows<T> in = input;
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

/// The scan of channel c again, for N states from n on: keeps e_t (rows, N) and s_t (rows + 1, N), s_0 the
/// state before. The first states start y, the others add to it.
template <class T, std::size_t N, bool kFirst>
HWY_INLINE void scan_again(Rows<T> y, T* decays, T* history, const T* state, const ScanRows<T> in,
                           std::size_t c, std::size_t n) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const T* rate = in.decay_rate + c * in.states + n;
  Vector<T> s[N];
  MAC_UNROLL for (std::size_t k = 0; k < N; ++k) {
    s[k] = hn::Load(d, state + (c * in.states + n + k) * W);
    hn::Store(s[k], d, history + k * W);
  }
  for (std::size_t t = 0; t < in.rows; ++t) {
    const auto delta = hn::Load(d, in.delta.row(t) + c * W), x = hn::Load(d, in.x.row(t) + c * W);
    const auto delta_x = hn::Mul(delta, x);
    const T *B = in.B.row(t) + n * W, *C = in.C.row(t) + n * W;
    T* const sum_row = y.row(t) + c * W;
    auto sum = kFirst ? hn::Mul(hn::Set(d, in.D[c]), x) : hn::Load(d, sum_row);
    MAC_UNROLL for (std::size_t k = 0; k < N; ++k) {
      const auto e = decay<T>(delta, hn::Set(d, rate[k]));
      s[k] = hn::MulAdd(e, s[k], hn::Mul(delta_x, hn::Load(d, B + k * W)));
      hn::Store(e, d, decays + (t * N + k) * W);
      hn::Store(s[k], d, history + ((t + 1) * N + k) * W);
      sum = hn::MulAdd(hn::Load(d, C + k * W), s[k], sum);
    }
    hn::Store(sum, d, sum_row);
  }
}

/// Backwards through N states of channel c. The gradients of those states and their rates stay in registers;
/// d_B and d_C are added to. The first states start d_delta and d_x, the others add to them.
template <class T, std::size_t N, bool kFirst>
HWY_INLINE void scan_back(const mamba::ScanRowGradients<T> out, Rows<const T> d_y, const T* decays,
                          const T* history, const ScanRows<T> in, std::size_t c, std::size_t n) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const T* rate = in.decay_rate + c * in.states + n;
  T* const d_state = out.state + (c * in.states + n) * W;
  constexpr T kLn2 = static_cast<T>(0.69314718055994530942);  // the rates are A·log2(e)
  Vector<T> d_s[N], d_rate[N], s[N];
  MAC_UNROLL for (std::size_t k = 0; k < N; ++k) {
    d_s[k] = hn::Load(d, d_state + k * W);
    d_rate[k] = hn::Zero(d);
    s[k] = hn::Load(d, history + (in.rows * N + k) * W);
  }
  const std::size_t wide = in.inner * W, narrow = in.B.stride, C_at = static_cast<std::size_t>(in.C.data - in.B.data);
  const T *const y_grad = d_y.data + c * W, *const deltas = in.delta.data + c * W, *const xs = in.x.data + c * W;
  const T* const Bs = in.B.data + n * W;
  T* const d_Bs = out.B.data + n * W;
  T *const d_xs = out.x.data + c * W, *const d_deltas = out.delta.data + c * W;
  for (std::size_t t = in.rows; t-- > 0;) {
    const std::size_t at = t * wide;
    const auto g = hn::Load(d, y_grad + at);
    const auto delta = hn::Load(d, deltas + at), x = hn::Load(d, xs + at);
    const auto delta_x = hn::Mul(delta, x);
    const T *B = Bs + t * narrow, *C = B + C_at;
    T *d_B = d_Bs + t * narrow, *d_C = d_B + C_at;
    const T *e = decays + t * N * W, *h = history + t * N * W;
    auto d_delta_x = hn::Zero(d), d_exponent = hn::Zero(d);
    MAC_UNROLL for (std::size_t k = 0; k < N; ++k) {
      hn::Store(hn::MulAdd(g, s[k], hn::Load(d, d_C + k * W)), d, d_C + k * W);
      d_s[k] = hn::MulAdd(g, hn::Load(d, C + k * W), d_s[k]);
      hn::Store(hn::MulAdd(d_s[k], delta_x, hn::Load(d, d_B + k * W)), d, d_B + k * W);
      d_delta_x = hn::MulAdd(d_s[k], hn::Load(d, B + k * W), d_delta_x);
      d_s[k] = hn::Mul(d_s[k], hn::Load(d, e + k * W));
      s[k] = hn::Load(d, h + k * W);
      const auto q = hn::Mul(d_s[k], s[k]);  // gradient of the exponent Δ A
      d_exponent = hn::MulAdd(q, hn::Set(d, rate[k]), d_exponent);
      d_rate[k] = hn::MulAdd(q, delta, d_rate[k]);
    }
    T *d_delta = d_deltas + at, *d_x = d_xs + at;
    d_exponent = hn::Mul(d_exponent, hn::Set(d, kLn2));
    const auto earlier_x = kFirst ? hn::Mul(hn::Set(d, in.D[c]), g) : hn::Load(d, d_x);
    const auto earlier_delta = kFirst ? d_exponent : hn::Add(hn::Load(d, d_delta), d_exponent);
    hn::Store(hn::MulAdd(d_delta_x, delta, earlier_x), d, d_x);
    hn::Store(hn::MulAdd(d_delta_x, x, earlier_delta), d, d_delta);
  }
  MAC_UNROLL for (std::size_t k = 0; k < N; ++k) hn::Store(d_s[k], d, d_state + k * W);
  HWY_ALIGN T d_A[4] = {};
  add_lane_sums<T, N>(d_A, d_rate);
  for (std::size_t k = 0; k < N; ++k)  // dA/dA_log = A
    out.A_log[c * in.states + n + k] += d_A[k] * rate[k] * kLn2;
}

/// N states from n on, of all channels one after the other: what these share (B, C and their gradients) and
/// the states kept for the way back stay in the first-level cache.
template <class T, std::size_t N, bool kFirst>
HWY_INLINE void scan_backward_states(const mamba::ScanRowGradients<T>& out, Rows<T> y, Rows<const T> d_y,
                                     const T* state, T* scratch, const ScanRows<T>& in, std::size_t n) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  for (std::size_t t = 0; t < in.rows; ++t)
    for (std::size_t k = n * W; k < (n + N) * W; k += W) {
      hn::Store(hn::Zero(d), d, out.B.row(t) + k);
      hn::Store(hn::Zero(d), d, out.C.row(t) + k);
    }
  T *const decays = scratch, *const history = scratch + in.rows * N * W;
  for (std::size_t c = 0; c < in.inner; ++c) {
    const std::size_t next =
        (std::min(c + 1, in.inner - 1) * in.states + n) * W;  // far away, so fetch it early
    MAC_UNROLL for (std::size_t k = 0; k < N * W; k += W) {
      hwy::Prefetch(state + next + k);
      hwy::Prefetch(out.state + next + k);
    }
    scan_again<T, N, kFirst>(y, decays, history, state, in, c, n);
    scan_back<T, N, kFirst>(out, d_y, decays, history, in, c, n);
  }
}

template <class T>
void scan_backward(const mamba::ScanRowGradients<T>& out, Rows<T> y, Rows<const T> d_y, const T* state,
                   T* scratch, const ScanRows<T>& in) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  constexpr std::size_t N = mamba::kScanTile;
  std::size_t n = 0;
  if (in.states >= N) {
    scan_backward_states<T, N, true>(out, y, d_y, state, scratch, in, 0);
    for (n = N; n + N <= in.states; n += N)
      scan_backward_states<T, N, false>(out, y, d_y, state, scratch, in, n);
  } else {
    scan_backward_states<T, 1, true>(out, y, d_y, state, scratch, in, 0);
    n = 1;
  }
  for (; n < in.states; ++n) scan_backward_states<T, 1, false>(out, y, d_y, state, scratch, in, n);
  for (std::size_t c = 0; c < in.inner; ++c) {
    Vector<T> d_D[1] = {hn::Zero(d)};
    for (std::size_t t = 0; t < in.rows; ++t)
      d_D[0] = hn::MulAdd(hn::Load(d, d_y.row(t) + c * W), hn::Load(d, in.x.row(t) + c * W), d_D[0]);
    add_lane_sums<T, 1>(out.D + c, d_D);
  }
}

/// N states of channel c, from n on, through all rows.
template <class T, std::size_t N>
HWY_INLINE void advance_states(T* state, const ScanRows<T> in, std::size_t c, std::size_t n) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const T* rate = in.decay_rate + c * in.states + n;
  T* const at = state + (c * in.states + n) * W;
  Vector<T> s[N];
  MAC_UNROLL for (std::size_t k = 0; k < N; ++k) s[k] = hn::Load(d, at + k * W);
  for (std::size_t t = 0; t < in.rows; ++t) {
    const auto delta = hn::Load(d, in.delta.row(t) + c * W);
    const auto delta_x = hn::Mul(delta, hn::Load(d, in.x.row(t) + c * W));
    const T* B = in.B.row(t) + n * W;
    MAC_UNROLL for (std::size_t k = 0; k < N; ++k) s[k] =
        hn::MulAdd(decay<T>(delta, hn::Set(d, rate[k])), s[k], hn::Mul(delta_x, hn::Load(d, B + k * W)));
  }
  MAC_UNROLL for (std::size_t k = 0; k < N; ++k) hn::Store(s[k], d, at + k * W);
}

template <class T>
void scan_advance(T* state, T* step_sums, const ScanRows<T>& input) {
  const ScanRows<T> in = input;
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  for (std::size_t c = 0; c < in.inner; ++c) {
    std::size_t n = 0;
    for (; n + mamba::kScanTile <= in.states; n += mamba::kScanTile)
      advance_states<T, mamba::kScanTile>(state, in, c, n);
    for (; n < in.states; ++n) advance_states<T, 1>(state, in, c, n);
    auto sum = hn::Load(d, step_sums + c * W);
    for (std::size_t t = 0; t < in.rows; ++t) sum = hn::Add(sum, hn::Load(d, in.delta.row(t) + c * W));
    hn::Store(sum, d, step_sums + c * W);
  }
}

/// The gradients of N states of channel c, from n on, back through all rows.
template <class T, std::size_t N>
HWY_INLINE void retreat_states(T* d_state, Rows<const T> d_y, const ScanRows<T> in, std::size_t c,
                               std::size_t n) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const T* rate = in.decay_rate + c * in.states + n;
  T* const at = d_state + (c * in.states + n) * W;
  Vector<T> d_s[N];
  MAC_UNROLL for (std::size_t k = 0; k < N; ++k) d_s[k] = hn::Load(d, at + k * W);
  for (std::size_t t = in.rows; t-- > 0;) {
    const auto delta = hn::Load(d, in.delta.row(t) + c * W), g = hn::Load(d, d_y.row(t) + c * W);
    const T* C = in.C.row(t) + n * W;
    MAC_UNROLL for (std::size_t k = 0; k < N; ++k) d_s[k] =
        hn::Mul(hn::MulAdd(g, hn::Load(d, C + k * W), d_s[k]), decay<T>(delta, hn::Set(d, rate[k])));
  }
  MAC_UNROLL for (std::size_t k = 0; k < N; ++k) hn::Store(d_s[k], d, at + k * W);
}

template <class T>
void scan_retreat(T* d_state, Rows<const T> d_y, const ScanRows<T>& input) {
  const ScanRows<T> in = input;
  for (std::size_t c = 0; c < in.inner; ++c) {
    std::size_t n = 0;
    for (; n + mamba::kScanTile <= in.states; n += mamba::kScanTile)
      retreat_states<T, mamba::kScanTile>(d_state, d_y, in, c, n);
    for (; n < in.states; ++n) retreat_states<T, 1>(d_state, d_y, in, c, n);
  }
}

template <class T>
void scan_decays(T* decays, const T* step_sums, const T* decay_rate, std::size_t inner, std::size_t states) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  for (std::size_t c = 0; c < inner; ++c) {
    const auto sum = hn::Load(d, step_sums + c * W);
    for (std::size_t i = c * states; i < (c + 1) * states; ++i)
      hn::Store(decay<T>(sum, hn::Set(d, decay_rate[i])), d, decays + i * W);
  }
}

template <class T>
mamba::ScanKernels<T> table() {
  return {&scan_forward<T>, &scan_backward<T>, &scan_advance<T>, &scan_retreat<T>, &scan_decays<T>};
}
mamba::ScanKernels<float> scan_table_float() { return table<float>(); }
mamba::ScanKernels<double> scan_table_double() { return table<double>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(mamba::ScanKernels<float>, mamba::scan_kernels<float>, scan_table_float)
MAC_DISPATCH(mamba::ScanKernels<double>, mamba::scan_kernels<double>, scan_table_double)
}  // namespace mac
#endif
