// Sums over the lanes of four vectors at once, for gradients of weights: adjacent lanes first within each
// 128-bit block, then the blocks in ascending order.
#if defined(MAC_NETWORK_CPU_LANE_SUM_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAC_NETWORK_CPU_LANE_SUM_INL_
#undef MAC_NETWORK_CPU_LANE_SUM_INL_
#else
#define MAC_NETWORK_CPU_LANE_SUM_INL_
#endif

#include "network/cpu/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

template <class T>
HWY_INLINE void add_lane_sums(T* to, Vector<T> a, Vector<T> b, Vector<T> c, Vector<T> e) {
  to[0] += hn::GetLane(a), to[1] += hn::GetLane(b), to[2] += hn::GetLane(c), to[3] += hn::GetLane(e);
}

#else

/// a0+a1, b0+b1, a2+a3, b2+b3 of every block (float); a0+a1, b0+b1 (double)
template <class T>
HWY_INLINE Vector<T> add_neighbours(Vector<T> a, Vector<T> b) {
  const Tag<T> d;
  return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
}

/// to[0..N) += the sum over blocks of v, N lanes of one block
template <class T>
HWY_INLINE void add_blocks(T* to, Vector<T> v) {
  const hn::FixedTag<T, 16 / sizeof(T)> block;
  constexpr std::size_t N = 16 / sizeof(T);
  HWY_ALIGN T lanes[kLanes<T>];
  hn::Store(v, Tag<T>(), lanes);
  auto sum = hn::Load(block, lanes);
  for (std::size_t i = N; i < kLanes<T>; i += N) sum = hn::Add(sum, hn::Load(block, lanes + i));
  hn::StoreU(hn::Add(hn::LoadU(block, to), sum), block, to);
}

/// to[0..4) += the lane sums of a, b, c, e
template <class T>
HWY_INLINE void add_lane_sums(T* to, Vector<T> a, Vector<T> b, Vector<T> c, Vector<T> e) {
  if constexpr (sizeof(T) == 4) {
    const hn::Repartition<double, Tag<T> > pairs;
    const auto ab = hn::BitCast(pairs, add_neighbours<T>(a, b));
    const auto ce = hn::BitCast(pairs, add_neighbours<T>(c, e));
    const auto even = hn::BitCast(Tag<T>(), hn::InterleaveLower(pairs, ab, ce));
    const auto odd = hn::BitCast(Tag<T>(), hn::InterleaveUpper(pairs, ab, ce));
    add_blocks<T>(to, hn::Add(even, odd));
  } else {
    add_blocks<T>(to, add_neighbours<T>(a, b));
    add_blocks<T>(to + 2, add_neighbours<T>(c, e));
  }
}

#endif

/// to[0..count) += the lane sums of the first count of four vectors
template <class T, std::size_t N>
HWY_INLINE void add_lane_sums(T* to, const Vector<T> (&v)[N]) {
  static_assert(N >= 1 && N <= 4);
  const auto zero = hn::Zero(Tag<T>());
  if constexpr (N == 4) {
    add_lane_sums<T>(to, v[0], v[1], v[2], v[3]);
  } else {
    HWY_ALIGN T sums[4] = {};
    add_lane_sums<T>(sums, v[0], N > 1 ? v[N > 1] : zero, N > 2 ? v[N > 2 ? 2 : 0] : zero, zero);
    for (std::size_t i = 0; i < N; ++i) to[i] += sums[i];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#endif
