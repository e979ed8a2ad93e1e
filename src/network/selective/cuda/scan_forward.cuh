// The scan forwards, for the kernels of a kind.
#pragma once

#include "network/cuda/launch_plan.hpp"
#include "network/selective/cuda/scan.cuh"

namespace mac::selective {

namespace {

template <class Of>
int shared_numbers(int rank) {
  return 3 * Of::forward_tile * Of::stride + Projected<Of, Of::forward_tile>::size(rank);
}

/// With BORDERS, only what a segment does: the states it leaves from zeros, and Σ Δ.
template <class Of, class Transition, bool BORDERS>
__global__ void __launch_bounds__(Of::threads)
    forward_kernel(Scan<typename Of::Scalar> p, typename Of::Scalar* gated,
                   BlockStates<typename Of::Scalar> final_state) {
  using T = typename Of::Scalar;
  constexpr int tile = Of::forward_tile, S = Of::lane_states, U = Transition::unit,
                items = (tile * Of::channels + Of::threads - 1) / Of::threads;
  extern __shared__ float4 shared[];
  T* const delta = reinterpret_cast<T*>(shared);  // (tile, stride), as the next two
  T* const delta_v = delta + tile * Of::stride;
  T* const sums = delta_v + tile * Of::stride;  // C · s
  const Place<Of> place(p);
  Projected<Of, tile> projected(sums + tile * Of::stride, p.sizes.rank);
  projected.begin(p, place);

  const LaneStates<Of, Transition> own(p, place);
  T s[S];
  if (BORDERS || (p.segments.count > 1 && !own.exists))
    for (T& state : s) state = 0;
  else if (p.segments.count > 1)
    load_states(s, own.in(p.borders, p, place.piece));
  else
    own.read(s, p, p.initial, place.sequence);

  const int c = place.first_channel + place.column;  // where time and channels are shared out
  const bool exists = place.exists(p, place.column);
  const T bias = exists ? p.step_bias[c] : 0, D = exists ? p.D[c] : 0;
  const int chunks = (p.time + scan_chunk - 1) / scan_chunk;
  T sum_of_steps = 0;

  for (int t0 = place.first_time; t0 < place.end_time; t0 += tile) {
    projected.load(p, place, t0);
    __syncthreads();
    T step[items];
    projected.steps(step, p, place, bias);
    place.template for_each<tile>([&](int i, int t) {
      const bool here = exists && t0 + t < place.end_time;
      const T v = here ? p.v[place.row(p, t0 + t) * p.sizes.inner + c] : 0;
      if (!here) step[i] = 0;
      delta[t * Of::stride + place.column] = step[i];
      delta_v[t * Of::stride + place.column] = step[i] * v;
      sum_of_steps += step[i];
    });
    __syncthreads();

    for (int first = 0; first < tile && t0 + first < place.end_time; first += scan_chunk) {
      if (!BORDERS && p.checkpoints && own.exists)
        store_states(own.in(p.checkpoints, p, place.sequence * chunks + (t0 + first) / scan_chunk), s);
      T of_step[scan_chunk];
#pragma unroll
      for (int k = 0; k < scan_chunk; ++k) {
        const int t = first + k;
        const T step = delta[t * Of::stride + place.channel], v = delta_v[t * Of::stride + place.channel];
        T B[S], C[S];
        load_states(B, projected.B + t * Of::states + own.first_state);
        load_states(C, projected.C + t * Of::states + own.first_state);
        T sum = 0;
#pragma unroll
        for (int i = 0; i < S; i += U) {
          T factors[U], drive[U];
          Transition::factors(factors, step, own.a + i);
#pragma unroll
          for (int j = 0; j < U; ++j) drive[j] = v * B[i + j];
          Transition::advance(s + i, factors, drive);
#pragma unroll
          for (int j = 0; j < U; ++j) sum = fma(C[i + j], s[i + j], sum);
        }
        of_step[k] = sum;
      }
      if (BORDERS) continue;
      const int from = fold<1, Of::lanes>(of_step);
      if (from >= 0)
#pragma unroll
        for (int k = 0; k < folded<1, Of::lanes, scan_chunk>(); ++k)
          sums[(first + from + k) * Of::stride + place.channel] = of_step[k];
    }
    __syncthreads();
    if (BORDERS) continue;
    place.template for_each<tile>([&](int, int t) {
      if (!exists || t0 + t >= place.end_time) return;
      const std::size_t row = place.row(p, t0 + t);
      const T skipped = D * p.v[row * p.sizes.inner + c], z = p.z[row * 2 * p.sizes.inner + c];
      gated[row * p.sizes.inner + c] = (sums[t * Of::stride + place.column] + skipped) * silu(z);
    });
  }

  if (!BORDERS) {
    if (place.end_time == p.time) own.write(s, p, final_state, place.sequence);
    return;
  }
  if (own.exists) store_states(own.in(p.borders, p, place.piece), s);
  delta[threadIdx.x] = sum_of_steps;  // the tile is done
  __syncthreads();
  if (threadIdx.x >= Of::channels || !exists) return;
  T total = 0;
  for (int i = threadIdx.x; i < Of::threads; i += Of::channels) total += delta[i];
  p.step_sums[place.piece * p.sizes.inner + c] = total;
}

/// borders: from what each segment leaves to what each begins with. A thread has a unit of a channel's states.
template <class T, class Transition>
__global__ void forward_chain_kernel(Scan<T> p, int padded_states) {
  constexpr int U = Transition::unit;
  const std::size_t inner = static_cast<std::size_t>(p.sizes.inner), of_piece = inner * padded_states;
  const std::size_t i = (static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * U;
  if (i >= p.batch * of_piece) return;
  const std::size_t sequence = i / of_piece, place = i % of_piece, channel = place / padded_states;
  const int n = static_cast<int>(place % padded_states);
  if (n >= p.sizes.states) return;  // stays zero
  const UnitRates<T, Transition> rates(p, static_cast<int>(channel), n);
  T state[U];
#pragma unroll
  for (int j = 0; j < U; ++j) state[j] = p.initial ? p.initial.of(sequence)[(n + j) * inner + channel] : 0;
  for (int segment = 0; segment < p.segments.count; ++segment) {
    const std::size_t piece = sequence * p.segments.count + segment;
    T *const border = p.borders + piece * of_piece + place, factors[U], from_zero[U];
    Transition::factors(factors, p.step_sums[piece * inner + channel], rates.a);
#pragma unroll
    for (int j = 0; j < U; ++j) from_zero[j] = border[j], border[j] = state[j];
    Transition::advance(state, factors, from_zero);
  }
}

template <class Of, class Transition, bool BORDERS>
void launch_forward(const Scan<typename Of::Scalar>& p, typename Of::Scalar* gated,
                    BlockStates<typename Of::Scalar> final_state, cudaStream_t stream) {
  const std::size_t bytes =
      sizeof(typename Of::Scalar) * static_cast<std::size_t>(shared_numbers<Of>(p.sizes.rank));
  cuda::allow_shared_memory(forward_kernel<Of, Transition, BORDERS>, bytes);
  const dim3 grid(static_cast<unsigned>(p.batch * p.segments.count),
                  static_cast<unsigned>((p.sizes.inner + Of::channels - 1) / Of::channels));
  forward_kernel<Of, Transition, BORDERS><<<grid, Of::threads, bytes, stream>>>(p, gated, final_state);
}

template <class T, class Transition>
void scan_forward(const Scan<T>& problem, T* gated, BlockStates<T> final_state, cudaStream_t stream) {
  with_shape<T>(problem.sizes.states, [&](auto of) {
    using Of = decltype(of);
    if (problem.segments.count > 1) {
      launch_forward<Of, Transition, true>(problem, gated, final_state, stream);
      const std::size_t count = static_cast<std::size_t>(problem.batch) *
                                static_cast<std::size_t>(problem.sizes.inner) * Of::states / Transition::unit;
      forward_chain_kernel<T, Transition>
          <<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(problem, Of::states);
    }
    launch_forward<Of, Transition, false>(problem, gated, final_state, stream);
  });
}

}  // namespace

}  // namespace mac::selective
