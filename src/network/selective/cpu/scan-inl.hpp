// The scan of a selective block, one channel at a time over the rows of a chunk:
//
//   s_t = F_t s_{t−1} + Δ_t x_t B_t,  y_t = C_t·s_t + D x_t
//
// s, B and C have d_state entries, summed over in ascending order. What F_t is, the kind's Transition<T> says of the kUnit
// states that it mixes, whose factors are as many numbers:
//
//   factors(f, delta, rate)     f of a unit at Δ, from its rates
//   advance(s, f, drive)        s ← F s + drive
//   retreat(d_s, f)             d_s ← Fᵀ d_s
//   exponents(q, d_s, s)        gradients of Δ·rate·ln2, for each rate, from Fᵀ d_s and the s before
//   place(c, n, inner, states)  of a rate's parameter, of which the rate is the exponential
#if defined(MAC_NETWORK_SELECTIVE_CPU_SCAN_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAC_NETWORK_SELECTIVE_CPU_SCAN_INL_
#undef MAC_NETWORK_SELECTIVE_CPU_SCAN_INL_
#else
#define MAC_NETWORK_SELECTIVE_CPU_SCAN_INL_
#endif

#include <hwy/cache_control.h>

#include <algorithm>

#include "network/cpu/lane_sum-inl.hpp"
#include "network/cpu/unroll.hpp"
#include "network/selective/cpu/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

using cpu::Rows;
using selective::ScanRows;

/// drive (kUnit) = Δ x B
template <class T, std::size_t U>
HWY_INLINE void drive_states(Vector<T> (&drive)[U], Vector<T> delta_x, const T* B) {
  MAC_UNROLL for (std::size_t j = 0; j < U; ++j) drive[j] =
      hn::Mul(delta_x, hn::Load(Tag<T>(), B + j * kLanes<T>));
}

/// The factors of the states whose rates these are.
template <class T, class Transition, std::size_t U>
HWY_INLINE void find_factors(Vector<T> (&factors)[U], Vector<T> delta, const T* rate) {
  Vector<T> rates[U];
  MAC_UNROLL for (std::size_t j = 0; j < U; ++j) rates[j] = hn::Set(Tag<T>(), rate[j]);
  Transition::factors(factors, delta, rates);
}

template <class T, class Transition>
void scan_forward(Rows<T> y, T* state, const ScanRows<T>& input) {
  const ScanRows<T> in = input;
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>, U = Transition::kUnit;
  for (std::size_t c = 0; c < in.inner; ++c) {
    const T* rate = in.rates + c * in.states;
    T* at = state + c * in.states * W;
    const auto skip = hn::Set(d, in.D[c]);
    for (std::size_t t = 0; t < in.rows; ++t) {
      const auto delta = hn::Load(d, in.delta.row(t) + c * W), x = hn::Load(d, in.x.row(t) + c * W);
      const auto delta_x = hn::Mul(delta, x);
      const T *B = in.B.row(t), *C = in.C.row(t);
      auto sum = hn::Zero(d);
      for (std::size_t n = 0; n < in.states; n += U) {
        Vector<T> factors[U], drive[U], s[U];
        find_factors<T, Transition>(factors, delta, rate + n);
        drive_states<T>(drive, delta_x, B + n * W);
        MAC_UNROLL for (std::size_t j = 0; j < U; ++j) s[j] = hn::Load(d, at + (n + j) * W);
        Transition::advance(s, factors, drive);
        MAC_UNROLL for (std::size_t j = 0; j < U; ++j) {
          hn::Store(s[j], d, at + (n + j) * W);
          sum = hn::MulAdd(hn::Load(d, C + (n + j) * W), s[j], sum);
        }
      }
      hn::Store(hn::MulAdd(skip, x, sum), d, y.row(t) + c * W);
    }
  }
}

/// The scan of channel c again, for N states from n on: keeps the factors (rows, N) and s_t (rows + 1, N), s_0 the
/// state before. The first states start y, the others add to it.
template <class T, class Transition, std::size_t N, bool kFirst>
HWY_INLINE void scan_again(Rows<T> y, T* kept_factors, T* history, const T* state, const ScanRows<T> in,
                           std::size_t c, std::size_t n) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>, U = Transition::kUnit;
  const T* rate = in.rates + c * in.states + n;
  Vector<T> s[N / U][U];
  MAC_UNROLL for (std::size_t k = 0; k < N; ++k) {
    s[k / U][k % U] = hn::Load(d, state + (c * in.states + n + k) * W);
    hn::Store(s[k / U][k % U], d, history + k * W);
  }
  for (std::size_t t = 0; t < in.rows; ++t) {
    const auto delta = hn::Load(d, in.delta.row(t) + c * W), x = hn::Load(d, in.x.row(t) + c * W);
    const auto delta_x = hn::Mul(delta, x);
    const T *B = in.B.row(t) + n * W, *C = in.C.row(t) + n * W;
    T* const sum_row = y.row(t) + c * W;
    auto sum = kFirst ? hn::Mul(hn::Set(d, in.D[c]), x) : hn::Load(d, sum_row);
    MAC_UNROLL for (std::size_t k = 0; k < N; k += U) {
      Vector<T> factors[U], drive[U];
      find_factors<T, Transition>(factors, delta, rate + k);
      drive_states<T>(drive, delta_x, B + k * W);
      Transition::advance(s[k / U], factors, drive);
      MAC_UNROLL for (std::size_t j = 0; j < U; ++j) {
        hn::Store(factors[j], d, kept_factors + (t * N + k + j) * W);
        hn::Store(s[k / U][j], d, history + ((t + 1) * N + k + j) * W);
        sum = hn::MulAdd(hn::Load(d, C + (k + j) * W), s[k / U][j], sum);
      }
    }
    hn::Store(sum, d, sum_row);
  }
}

/// Backwards through N states of channel c. The gradients of those states and their rates stay in registers;
/// d_B and d_C are added to. The first states start d_delta and d_x, the others add to them.
template <class T, class Transition, std::size_t N, bool kFirst>
HWY_INLINE void scan_back(const selective::ScanRowGradients<T> out, Rows<const T> d_y, const T* kept_factors,
                          const T* history, const ScanRows<T> in, std::size_t c, std::size_t n) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>, U = Transition::kUnit;
  const T* rate = in.rates + c * in.states + n;
  T* const d_state = out.state + (c * in.states + n) * W;
  constexpr T kLn2 = static_cast<T>(0.69314718055994530942);
  Vector<T> d_s[N / U][U], d_rate[N], s[N / U][U];
  MAC_UNROLL for (std::size_t k = 0; k < N; ++k) {
    d_s[k / U][k % U] = hn::Load(d, d_state + k * W);
    d_rate[k] = hn::Zero(d);
    s[k / U][k % U] = hn::Load(d, history + (in.rows * N + k) * W);
  }
  // Pointers to eleven rows with strides of their own would not fit the registers: there are two strides, and C lies
  // behind B.
  const std::size_t wide = in.x.stride, narrow = in.B.stride;
  const std::ptrdiff_t to_C = in.C.data - in.B.data;
  const T *const d_ys = d_y.data + c * W, *const deltas = in.delta.data + c * W,
                 *const xs = in.x.data + c * W;
  const T* const Bs = in.B.data + n * W;
  T *const d_Bs = out.B.data + n * W, *const d_deltas = out.delta.data + c * W,
           *const d_xs = out.x.data + c * W;
  for (std::size_t t = in.rows; t-- > 0;) {
    const std::size_t row = t * wide;
    const auto g = hn::Load(d, d_ys + row);
    const auto delta = hn::Load(d, deltas + row), x = hn::Load(d, xs + row);
    const auto delta_x = hn::Mul(delta, x);
    const T *B = Bs + t * narrow, *C = B + to_C;
    T *d_B = d_Bs + t * narrow, *d_C = d_B + to_C;
    auto d_delta_x = hn::Zero(d), d_exponent = hn::Zero(d);
    MAC_UNROLL for (std::size_t unit = 0; unit < N / U; ++unit) {
      Vector<T> factors[U], q[U];
      MAC_UNROLL for (std::size_t j = 0; j < U; ++j) {
        const std::size_t at = (unit * U + j) * W;
        Vector<T>& of_state = d_s[unit][j];
        hn::Store(hn::MulAdd(g, s[unit][j], hn::Load(d, d_C + at)), d, d_C + at);
        of_state = hn::MulAdd(g, hn::Load(d, C + at), of_state);
        hn::Store(hn::MulAdd(of_state, delta_x, hn::Load(d, d_B + at)), d, d_B + at);
        d_delta_x = hn::MulAdd(of_state, hn::Load(d, B + at), d_delta_x);
        factors[j] = hn::Load(d, kept_factors + t * N * W + at);
        s[unit][j] = hn::Load(d, history + t * N * W + at);
      }
      Transition::retreat(d_s[unit], factors);
      Transition::exponents(q, d_s[unit], s[unit]);
      MAC_UNROLL for (std::size_t j = 0; j < U; ++j) {
        d_exponent = hn::MulAdd(q[j], hn::Set(d, rate[unit * U + j]), d_exponent);
        d_rate[unit * U + j] = hn::MulAdd(q[j], delta, d_rate[unit * U + j]);
      }
    }
    T *d_delta = d_deltas + row, *d_x = d_xs + row;
    d_exponent = hn::Mul(d_exponent, hn::Set(d, kLn2));
    const auto earlier_x = kFirst ? hn::Mul(hn::Set(d, in.D[c]), g) : hn::Load(d, d_x);
    const auto earlier_delta = kFirst ? d_exponent : hn::Add(hn::Load(d, d_delta), d_exponent);
    hn::Store(hn::MulAdd(d_delta_x, delta, earlier_x), d, d_x);
    hn::Store(hn::MulAdd(d_delta_x, x, earlier_delta), d, d_delta);
  }
  MAC_UNROLL for (std::size_t k = 0; k < N; ++k) hn::Store(d_s[k / U][k % U], d, d_state + k * W);
  HWY_ALIGN T d_log[4] = {};
  add_lane_sums<T, N>(d_log, d_rate);
  for (std::size_t k = 0; k < N; ++k)  // the rate's derivative by its logarithm is itself
    out.A_log[Transition::place(c, n + k, in.inner, in.states)] += d_log[k] * rate[k] * kLn2;
}

/// N states from n on, of all channels one after the other: what these share (B, C and their gradients) and
/// the states kept for the way back stay in the first-level cache.
template <class T, class Transition, std::size_t N, bool kFirst>
HWY_INLINE void scan_backward_states(const selective::ScanRowGradients<T>& out, Rows<T> y, Rows<const T> d_y,
                                     const T* state, T* scratch, const ScanRows<T>& in, std::size_t n) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  for (std::size_t t = 0; t < in.rows; ++t)
    for (std::size_t k = n * W; k < (n + N) * W; k += W) {
      hn::Store(hn::Zero(d), d, out.B.row(t) + k);
      hn::Store(hn::Zero(d), d, out.C.row(t) + k);
    }
  T *const factors = scratch, *const history = scratch + in.rows * N * W;
  for (std::size_t c = 0; c < in.inner; ++c) {
    const std::size_t next =
        (std::min(c + 1, in.inner - 1) * in.states + n) * W;  // far away, so fetch it early
    MAC_UNROLL for (std::size_t k = 0; k < N * W; k += W) {
      hwy::Prefetch(state + next + k);
      hwy::Prefetch(out.state + next + k);
    }
    scan_again<T, Transition, N, kFirst>(y, factors, history, state, in, c, n);
    scan_back<T, Transition, N, kFirst>(out, d_y, factors, history, in, c, n);
  }
}

template <class T, class Transition>
void scan_backward(const selective::ScanRowGradients<T>& out, Rows<T> y, Rows<const T> d_y, const T* state,
                   T* scratch, const ScanRows<T>& in) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>, U = Transition::kUnit;
  constexpr std::size_t N = selective::kScanTile;
  std::size_t n = 0;
  if (in.states >= N) {
    scan_backward_states<T, Transition, N, true>(out, y, d_y, state, scratch, in, 0);
    for (n = N; n + N <= in.states; n += N)
      scan_backward_states<T, Transition, N, false>(out, y, d_y, state, scratch, in, n);
  } else {
    scan_backward_states<T, Transition, U, true>(out, y, d_y, state, scratch, in, 0);
    n = U;
  }
  for (; n < in.states; n += U)
    scan_backward_states<T, Transition, U, false>(out, y, d_y, state, scratch, in, n);
  for (std::size_t c = 0; c < in.inner; ++c) {
    Vector<T> d_D[1] = {hn::Zero(d)};
    for (std::size_t t = 0; t < in.rows; ++t)
      d_D[0] = hn::MulAdd(hn::Load(d, d_y.row(t) + c * W), hn::Load(d, in.x.row(t) + c * W), d_D[0]);
    add_lane_sums<T, 1>(out.D + c, d_D);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#endif
