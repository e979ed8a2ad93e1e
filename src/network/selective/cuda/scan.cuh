// What both passes of the general scan share. A block has some channels of a sequence (or of a segment of it), in tiles
// of time that are prepared in shared memory by all threads, (time, channel) by (time, channel): Δ, Δ v, B, C. The scan
// itself has G lanes for a channel, each with S of its states in registers; the padded states have B = C = 0.
//
// What a step makes of the states is the kind's Transition: as in network/selective/cpu/scan-inl.hpp, but the gradients of exponents
// come from d_s, the factors and the states before; and retreat adds as advance does. rate(problem, channel, state) is that of
// a state.
#pragma once

#include <type_traits>

#include "network/cuda/general/activations.cuh"
#include "network/selective/cuda/general.hpp"

namespace mac::selective {

using cuda::power_of_2;
using cuda::sigmoid;
using cuda::silu;
using cuda::silu_slope;

/// Of double there are fewer channels and times in shared memory.
template <class T, int S, int G>
struct Shape {
  using Scalar = T;
  static constexpr bool wide = sizeof(T) > sizeof(float);
  static constexpr int lane_states = S, lanes = G, states = S * G;
  static constexpr int channels = G == 1   ? (wide ? 64 : 128)
                                  : G == 2 ? 64
                                  : G <= 8 ? 32
                                           : (wide && S * G > 128 ? 128 : 256) / G;
  static constexpr int threads = channels * G, warps = threads / 32;
  static constexpr int stride =
      channels + 4;  // of rows (time) in shared memory: lanes of a channel differ in time
  static constexpr int forward_tile = 32, backward_tile = states <= (wide ? 0 : 16)    ? 32
                                                          : states <= (wide ? 16 : 32) ? 16
                                                                                       : 8;
};

/// Sums values[i] over the lanes of a warp that differ in the bits from FIRST to below END. Each lane is left with the
/// sums of some of them, from values[0] on; returns the place of the first, or −1 in lanes whose sums another has, too.
template <int FIRST, int END, class T, int N>
__device__ int fold(T (&values)[N]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int first = 0, count = N;
#pragma unroll
  for (int mask = END / 2; mask >= FIRST; mask /= 2) {
    const bool upper = lane & mask;
    if (count > 1) {
      count /= 2;
#pragma unroll
      for (int i = 0; i < N / 2; ++i)
        if (i < count) {
          const T mine = upper ? values[i + count] : values[i], other = upper ? values[i] : values[i + count];
          values[i] = mine + __shfl_xor_sync(~0u, other, mask);
        }
      if (upper) first += count;
    } else {
      values[0] += __shfl_xor_sync(~0u, values[0], mask);
      if (upper) first = -1 - N;
    }
  }
  return first < 0 ? -1 : first;
}
/// How many sums a lane is left with.
template <int FIRST, int END, int N>
__host__ __device__ constexpr int folded() {
  return N * FIRST / END > 1 ? N * FIRST / END : 1;
}

/// A block's place in the work, and a thread's in the block.
template <class Of>
struct Place {
  using T = typename Of::Scalar;
  int first_channel;            // of the block
  int channel, lane;            // in the block, in the scan: of the thread's states
  int column;                   // in the block, where time and channels are shared out
  std::size_t sequence, piece;  // piece: (sequence, segment)
  int segment, first_time, end_time;

  __device__ explicit Place(const Scan<T>& p)
      : first_channel(static_cast<int>(blockIdx.y) * Of::channels),
        channel(static_cast<int>(threadIdx.x) / Of::lanes),
        lane(static_cast<int>(threadIdx.x) % Of::lanes),
        column(static_cast<int>(threadIdx.x) % Of::channels),
        sequence(blockIdx.x / p.segments.count),
        piece(blockIdx.x),
        segment(static_cast<int>(blockIdx.x % p.segments.count)),
        first_time(segment * p.segments.time),
        end_time(min(first_time + p.segments.time, p.time)) {}

  __device__ std::size_t row(const Scan<T>& p, int t) const { return sequence * p.time + t; }
  __device__ bool exists(const Scan<T>& p, int channel_in_block) const {
    return first_channel + channel_in_block < p.sizes.inner;
  }
  /// f(time in the tile, place in a row of shared memory) for the thread's (time, channel) of a tile.
  template <int TILE, class F>
  static __device__ void for_each(F f) {
#pragma unroll
    for (int i = 0; i < (TILE * Of::channels + Of::threads - 1) / Of::threads; ++i) {
      const int number = static_cast<int>(threadIdx.x) + i * Of::threads;
      if (number < TILE * Of::channels) f(i, number / Of::channels);
    }
  }
};

/// x_proj's output in a tile, and dt_proj's weights of the block's channels.
template <class Of, int TILE>
struct Projected {
  using T = typename Of::Scalar;
  T *B, *C;   // (TILE, states): zeros where there is no step or no state
  T* dt;      // (TILE, rank)
  T* weight;  // (rank, channels)

  static __host__ __device__ int size(int rank) {
    return 2 * TILE * Of::states + (TILE * rank + 3) / 4 * 4 + rank * Of::channels;
  }
  __device__ Projected(T* shared, int rank)
      : B(shared),
        C(B + TILE * Of::states),
        dt(C + TILE * Of::states),
        weight(dt + (TILE * rank + 3) / 4 * 4) {}

  /// Once, before the first tile.
  __device__ void begin(const Scan<T>& p, const Place<Of>& place) {
    const int rank = p.sizes.rank, thread = static_cast<int>(threadIdx.x);
    for (int i = thread; i < 2 * TILE * Of::states; i += Of::threads) B[i] = 0;
    for (int i = thread; i < rank * Of::channels; i += Of::threads) {
      const int k = i / Of::channels, c = i % Of::channels;
      weight[i] = place.exists(p, c) ? p.step_weight[(place.first_channel + c) * rank + k] : 0;
    }
    __syncthreads();
  }
  __device__ void load(const Scan<T>& p, const Place<Of>& place, int first_time) {
    const int columns = p.sizes.projected(), rank = p.sizes.rank, n = p.sizes.states;
    const T* const from = p.projected + place.row(p, first_time) * columns;
    const int count = min(TILE, place.end_time - first_time) * columns;
    for (int i = static_cast<int>(threadIdx.x); i < TILE * columns; i += Of::threads) {
      const int t = i / columns, j = i - t * columns;
      const T value = i < count ? from[i] : 0;
      if (j < rank)
        dt[t * rank + j] = value;
      else if (j < rank + n)
        B[t * Of::states + j - rank] = value;
      else
        C[t * Of::states + j - rank - n] = value;
    }
  }
  /// Δ of the thread's (time, channel), after the tile was loaded.
  template <int ITEMS>
  __device__ void steps(T (&delta)[ITEMS], const Scan<T>& p, const Place<Of>& place, T bias) const {
    for (T& value : delta) value = bias;
    for (int k = 0; k < p.sizes.rank; ++k) {
      const T w = weight[k * Of::channels + place.column];
      Place<Of>::template for_each<TILE>(
          [&](int i, int t) { delta[i] = fma(w, dt[t * p.sizes.rank + k], delta[i]); });
    }
    for (T& value : delta) value = cuda::softplus(value);
  }
};

/// Sixteen bytes at once.
template <class T>
using Sixteen = std::conditional_t<std::is_same_v<T, double>, double2, float4>;

template <class T, int S>
__device__ void load_states(T (&to)[S], const T* from) {
  constexpr int at_once = sizeof(Sixteen<T>) / sizeof(T);
  static_assert(S % at_once == 0);
#pragma unroll
  for (int i = 0; i < S; i += at_once) {
    const Sixteen<T> some = *reinterpret_cast<const Sixteen<T>*>(from + i);
    to[i] = some.x, to[i + 1] = some.y;
    if constexpr (at_once == 4) to[i + 2] = some.z, to[i + 3] = some.w;
  }
}
template <class T, int S>
__device__ void store_states(T* to, const T (&from)[S]) {
  constexpr int at_once = sizeof(Sixteen<T>) / sizeof(T);
#pragma unroll
  for (int i = 0; i < S; i += at_once)
    if constexpr (at_once == 4)
      *reinterpret_cast<float4*>(to + i) = {from[i], from[i + 1], from[i + 2], from[i + 3]};
    else
      *reinterpret_cast<double2*>(to + i) = {from[i], from[i + 1]};
}

/// A thread's states and their rates.
template <class Of, class Transition>
struct LaneStates {
  using T = typename Of::Scalar;
  static constexpr int S = Of::lane_states;
  T a[S];  // of decay, A log₂e, or of turning
  int channel, first_state;
  bool exists;

  __device__ LaneStates(const Scan<T>& p, const Place<Of>& place)
      : channel(place.first_channel + place.channel),
        first_state(place.lane * S),
        exists(place.exists(p, place.channel)) {
#pragma unroll
    for (int i = 0; i < S; ++i) a[i] = has(p, i) ? Transition::rate(p, channel, first_state + i) : 0;
  }
  __device__ bool has(const Scan<T>& p, int i) const { return exists && first_state + i < p.sizes.states; }

  /// The states (states, inner) of a sequence in the network's interface, or zeros.
  template <class U>
  __device__ void read(T (&s)[S], const Scan<T>& p, BlockStates<U> states, std::size_t sequence) const {
#pragma unroll
    for (int i = 0; i < S; ++i)
      s[i] = states && has(p, i) ? states.of(sequence)[(first_state + i) * p.sizes.inner + channel] : 0;
  }
  __device__ void write(const T (&s)[S], const Scan<T>& p, BlockStates<T> states,
                        std::size_t sequence) const {
#pragma unroll
    for (int i = 0; i < S; ++i)
      if (states && has(p, i)) states.of(sequence)[(first_state + i) * p.sizes.inner + channel] = s[i];
  }
  /// The thread's place in an array (piece, inner, padded states).
  __device__ T* in(T* array, const Scan<T>& p, std::size_t piece) const {
    return array + (piece * p.sizes.inner + channel) * Of::states + first_state;
  }
};

/// The rates of a unit of states that begins with state n of a channel, for kernels of a thread a unit.
template <class T, class Transition>
struct UnitRates {
  T a[Transition::unit];
  __device__ UnitRates(const Scan<T>& p, int channel, int n) {
#pragma unroll
    for (int j = 0; j < Transition::unit; ++j) a[j] = Transition::rate(p, channel, n + j);
  }
};

/// f(Shape<T, S, G>()) of the first shape with room for the states. A lane's eight states of double would fill its
/// registers.
template <class T, class F>
void with_shape(int states, F f) {
  constexpr int many = std::is_same_v<T, double> ? 4 : 8;
  if (states <= 4) return f(Shape<T, 4, 1>());
  if (states <= 8) return f(Shape<T, 4, 2>());
  if (states <= 16) return f(Shape<T, 4, 4>());
  if (states <= 32) return f(Shape<T, many, 32 / many>());
  if (states <= 64) return f(Shape<T, many, 64 / many>());
  if (states <= 128) return f(Shape<T, many, 128 / many>());
  f(Shape<T, 8, most_states / 8>());
}

}  // namespace mac::selective
