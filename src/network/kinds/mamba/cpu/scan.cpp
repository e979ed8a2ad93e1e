// The scan of a Mamba block: s_t = exp(Δ_t A) s_{t−1} + Δ_t x_t B_t, and what segments ask of it.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/kinds/mamba/cpu/scan.cpp"
#include <hwy/foreach_target.h>

#include "network/kinds/mamba/cpu/kernels.hpp"
#include "network/kinds/mamba/cpu/transition-inl.hpp"
#include "network/selective/cpu/scan-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

/// N states of channel c, from n on, through all rows.
template <class T, std::size_t N>
HWY_INLINE void advance_states(T* state, const ScanRows<T> in, std::size_t c, std::size_t n) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const T* rate = in.rates + c * in.states + n;
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
    for (; n + selective::kScanTile <= in.states; n += selective::kScanTile)
      advance_states<T, selective::kScanTile>(state, in, c, n);
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
  const T* rate = in.rates + c * in.states + n;
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
    for (; n + selective::kScanTile <= in.states; n += selective::kScanTile)
      retreat_states<T, selective::kScanTile>(d_state, d_y, in, c, n);
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
selective::ScanKernels<T> scan_table() {
  return {&scan_forward<T, Decaying<T>>, &scan_backward<T, Decaying<T>>};
}
selective::ScanKernels<float> scan_table_float() { return scan_table<float>(); }
selective::ScanKernels<double> scan_table_double() { return scan_table<double>(); }

template <class T>
mamba::SegmentKernels<T> segment_table() {
  return {&scan_advance<T>, &scan_retreat<T>, &scan_decays<T>};
}
mamba::SegmentKernels<float> segment_table_float() { return segment_table<float>(); }
mamba::SegmentKernels<double> segment_table_double() { return segment_table<double>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(selective::ScanKernels<float>, mamba::scan_kernels<float>, scan_table_float)
MAC_DISPATCH(selective::ScanKernels<double>, mamba::scan_kernels<double>, scan_table_double)
MAC_DISPATCH(mamba::SegmentKernels<float>, mamba::segment_kernels<float>, segment_table_float)
MAC_DISPATCH(mamba::SegmentKernels<double>, mamba::segment_kernels<double>, segment_table_double)
}  // namespace mac
#endif
