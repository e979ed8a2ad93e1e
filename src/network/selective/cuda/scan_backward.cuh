// The scan backwards. With q_t = Σ_n d_s B (over the states of a channel), a = A log₂e and d_p the gradient of p = C·s + D v:
//
//   d_s += d_p C                          d_C = d_p s_t            (sums over channels)
//   d_v  = Δ q + D d_p                    d_B = d_s Δ v
//   d_Δ  = Σ_n d_s A e^(Δ A) s_{t−1} + v q
//   d_s ← e^(Δ A) d_s                     (a transposed matrix where states turn)
//
// The states of a chunk are computed anew from those before it and stay in registers.
#pragma once

#include "network/cuda/launch_plan.hpp"
#include "network/selective/cuda/scan.cuh"

namespace mac::selective {

namespace {

/// Shared memory in numbers: rows of (time, channel), the warps' sums for B and C, and x_proj's output.
template <class Of>
struct Layout {
  static constexpr int tile = Of::backward_tile, rows = tile * Of::stride, BC = 2 * Of::states;
  static __host__ __device__ int sums_of_warps() { return 6 * rows; }
  static __host__ __device__ int projected() { return sums_of_warps() + Of::warps * tile * BC; }
  static __host__ __device__ int size(int rank) { return projected() + Projected<Of, tile>::size(rank); }
};

/// With BORDERS, only what a segment does to the gradient of a state: what it leaves from zeros.
template <class Of, class Transition, bool BORDERS>
__global__ void __launch_bounds__(Of::threads)
    backward_kernel(Scan<typename Of::Scalar> p, ScanGradients<typename Of::Scalar> d) {
  using T = typename Of::Scalar;
  constexpr T ln_2 = 0.693147180559945309417;
  using Memory = Layout<Of>;
  constexpr int tile = Memory::tile, S = Of::lane_states, U = Transition::unit, stride = Of::stride,
                items = (tile * Of::channels + Of::threads - 1) / Of::threads;
  extern __shared__ float4 shared_fours[];
  T* const shared = reinterpret_cast<T*>(shared_fours);
  T *const delta = shared, *const v = delta + Memory::rows, *const d_p = v + Memory::rows,
           *const scanned = d_p + Memory::rows,  // C · s
               *const d_decay = scanned + Memory::rows, *const q = d_decay + Memory::rows;
  T* const of_warps = shared + Memory::sums_of_warps();  // (warp, time, B then C)
  const Place<Of> place(p);
  Projected<Of, tile> projected(shared + Memory::projected(), p.sizes.rank);
  projected.begin(p, place);

  const LaneStates<Of, Transition> own(p, place);
  T d_s[S], d_a[S] = {};
  const bool last_segment = place.end_time == p.time;
  if (BORDERS && !last_segment)
    for (T& value : d_s) value = 0;
  else if (last_segment)
    own.read(d_s, p, d.d_final, place.sequence);
  else if (own.exists)
    load_states(d_s, own.in(p.borders, p, place.piece));
  else
    for (T& value : d_s) value = 0;

  const int inner = p.sizes.inner,
            c = place.first_channel + place.column;  // where time and channels are shared out
  const bool exists = place.exists(p, place.column);
  const T bias = exists ? p.step_bias[c] : 0, D = exists ? p.D[c] : 0;
  const int chunks = (p.time + scan_chunk - 1) / scan_chunk;
  T d_D = 0, d_bias = 0, sum_of_steps = 0;

  const int tiles = (place.end_time - place.first_time + tile - 1) / tile;
  for (int t0 = place.first_time + (tiles - 1) * tile; t0 >= place.first_time; t0 -= tile) {
    projected.load(p, place, t0);
    __syncthreads();
    T step[items];
    projected.steps(step, p, place, bias);
    place.template for_each<tile>([&](int i, int t) {
      const bool here = exists && t0 + t < place.end_time;
      const std::size_t row = place.row(p, t0 + t);
      const int at = t * stride + place.column;
      delta[at] = here ? step[i] : 0;
      v[at] = here ? p.v[row * inner + c] : 0;
      d_p[at] = here ? d.d_gated[row * inner + c] * silu(p.z[row * 2 * inner + c]) : 0;
      if (BORDERS) sum_of_steps += delta[at];
    });
    __syncthreads();

    for (int first = (min(tile, place.end_time - t0) - 1) / scan_chunk * scan_chunk; first >= 0;
         first -= scan_chunk) {
      const auto at = [&](int k) { return (first + k) * stride + place.channel; };
      T before[scan_chunk][S], s[S], of_step[scan_chunk];
      if (!BORDERS) {
        if (own.exists)
          load_states(s, own.in(p.checkpoints, p, place.sequence * chunks + (t0 + first) / scan_chunk));
        else
          for (T& state : s) state = 0;
#pragma unroll
        for (int k = 0; k < scan_chunk; ++k) {
          const T step = delta[at(k)], step_v = step * v[at(k)];
          T B[S], C[S];
          load_states(B, projected.B + (first + k) * Of::states + own.first_state);
          load_states(C, projected.C + (first + k) * Of::states + own.first_state);
          T sum = 0;
#pragma unroll
          for (int i = 0; i < S; i += U) {
            T factors[U], drive[U];
            Transition::factors(factors, step, own.a + i);
#pragma unroll
            for (int j = 0; j < U; ++j) before[k][i + j] = s[i + j], drive[j] = step_v * B[i + j];
            Transition::advance(s + i, factors, drive);
#pragma unroll
            for (int j = 0; j < U; ++j) sum = fma(C[i + j], s[i + j], sum);
          }
          of_step[k] = sum;
        }
        const int from = fold<1, Of::lanes>(of_step);
        if (from >= 0)
#pragma unroll
          for (int k = 0; k < folded<1, Of::lanes, scan_chunk>(); ++k) scanned[at(from + k)] = of_step[k];
      }

      T of_decay[scan_chunk], of_input[scan_chunk];
#pragma unroll
      for (int k = scan_chunk - 1; k >= 0; --k) {
        const T step = delta[at(k)], d_out = d_p[at(k)];
        T B[S], C[S], of_BC[2 * S];
        load_states(C, projected.C + (first + k) * Of::states + own.first_state);
        if (BORDERS) {
#pragma unroll
          for (int i = 0; i < S; i += U) {
            T factors[U], nothing[U] = {};
            Transition::factors(factors, step, own.a + i);
#pragma unroll
            for (int j = 0; j < U; ++j) d_s[i + j] = fma(d_out, C[i + j], d_s[i + j]);
            Transition::retreat(d_s + i, factors, nothing);
          }
          continue;
        }
        load_states(B, projected.B + (first + k) * Of::states + own.first_state);
        const T step_v = step * v[at(k)];
        T decay_sum = 0, input_sum = 0;
#pragma unroll
        for (int i = 0; i < S; i += U) {
          T factors[U], exponents[U], nothing[U] = {};
          Transition::factors(factors, step, own.a + i);
#pragma unroll
          for (int j = i; j < i + U; ++j) {
            of_BC[S + j] = d_out * (k + 1 < scan_chunk ? before[(k + 1) % scan_chunk][j] : s[j]);
            d_s[j] = fma(d_out, C[j], d_s[j]);
            of_BC[j] = d_s[j] * step_v;
            input_sum = fma(d_s[j], B[j], input_sum);
          }
          Transition::exponents(exponents, d_s + i, factors, before[k] + i);
#pragma unroll
          for (int j = 0; j < U; ++j) {
            decay_sum = fma(exponents[j], own.a[i + j], decay_sum);
            d_a[i + j] = fma(exponents[j], step, d_a[i + j]);
          }
          Transition::retreat(d_s + i, factors, nothing);
        }
        of_decay[k] = decay_sum, of_input[k] = input_sum;
        // The lanes of a warp with the same states are channels.
        const int from = fold<Of::lanes, 32>(of_BC);
        T* const to = of_warps + (threadIdx.x / 32 * tile + first + k) * Memory::BC + own.first_state;
        if (from >= 0)
#pragma unroll
          for (int i = 0; i < folded<Of::lanes, 32, 2 * S>(); ++i)
            to[from + i < S ? from + i : Of::states + from + i - S] = of_BC[i];
      }
      if (BORDERS) continue;
      const int from = fold<1, Of::lanes>(of_decay);
      fold<1, Of::lanes>(of_input);
      if (from >= 0)
#pragma unroll
        for (int k = 0; k < folded<1, Of::lanes, scan_chunk>(); ++k)
          d_decay[at(from + k)] = of_decay[k], q[at(from + k)] = of_input[k];
    }
    __syncthreads();
    if (BORDERS) continue;

    place.template for_each<tile>([&](int, int t) {
      if (!exists || t0 + t >= place.end_time) return;
      const std::size_t row = place.row(p, t0 + t);
      const int at = t * stride + place.column;
      const T z = p.z[row * 2 * inner + c], d_gated = d.d_gated[row * inner + c];
      d.d_z[row * 2 * inner + c] = d_gated * fma(D, v[at], scanned[at]) * silu_slope(z, sigmoid(z));
      d.d_v[row * inner + c] = fma(delta[at], q[at], D * d_p[at]);
      // dA/da = ln 2; the derivative of softplus is 1 − e^(−Δ).
      const T d_step = fma(ln_2, d_decay[at], v[at] * q[at]) * -expm1(-delta[at]);
      d.d_step[row * inner + c] = d_step;
      d_D = fma(d_p[at], v[at], d_D);
      d_bias += d_step;
    });
    const int n = p.sizes.states;
    for (int i = static_cast<int>(threadIdx.x); i < tile * 2 * n; i += Of::threads) {
      const int t = i / (2 * n), j = i - t * 2 * n;
      if (t0 + t >= place.end_time) break;
      const T* const from = of_warps + t * Memory::BC + (j < n ? j : Of::states + j - n);
      T sum = 0;
#pragma unroll
      for (int warp = 0; warp < Of::warps; ++warp) sum += from[warp * tile * Memory::BC];
      const std::size_t rows = static_cast<std::size_t>(p.batch) * p.time;
      d.d_BC[(blockIdx.y * rows + place.row(p, t0 + t)) * 2 * n + j] = sum;
    }
    __syncthreads();
  }

  // Sums over the threads of a channel, in order.
  const auto of_column = [&](T value, T* memory) {
    memory[threadIdx.x] = value;
    __syncthreads();
    T total = 0;
    for (int i = place.column; i < Of::threads; i += Of::channels) total += memory[i];
    return total;
  };
  if (BORDERS) {
    if (own.exists) store_states(own.in(p.borders, p, place.piece), d_s);
    const T total = of_column(sum_of_steps, of_warps);
    if (threadIdx.x < Of::channels && exists) p.step_sums[place.piece * inner + c] = total;
    return;
  }
  if (place.segment == 0) own.write(d_s, p, d.d_initial, place.sequence);
  const int n = p.sizes.states;
  T* const to = d.parts + place.piece * inner * (n + 2);
#pragma unroll
  for (int i = 0; i < S; ++i)  // a rate's derivative by its logarithm is itself
    if (own.has(p, i))
      to[Transition::place(own.channel, own.first_state + i, inner, n)] = d_a[i] * own.a[i] * ln_2;
  const T sum_D = of_column(d_D, of_warps), sum_bias = of_column(d_bias, of_warps + Of::threads);
  if (threadIdx.x >= Of::channels || !exists) return;
  to[inner * n + c] = sum_D;
  to[inner * (n + 1) + c] = sum_bias;
}

/// borders: from what each segment leaves to the gradient of the states that it ends with. The last one has d_final.
template <class T, class Transition>
__global__ void backward_chain_kernel(Scan<T> p, int padded_states) {
  constexpr int U = Transition::unit;
  const std::size_t inner = static_cast<std::size_t>(p.sizes.inner), of_piece = inner * padded_states;
  const std::size_t i = (static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * U;
  if (i >= p.batch * of_piece) return;
  const std::size_t sequence = i / of_piece, place = i % of_piece, channel = place / padded_states;
  const int n = static_cast<int>(place % padded_states);
  if (n >= p.sizes.states) return;  // stays zero
  const UnitRates<T, Transition> rates(p, static_cast<int>(channel), n);
  T d_state[U] = {};
  for (int segment = p.segments.count - 1; segment >= 0; --segment) {
    const std::size_t piece = sequence * p.segments.count + segment;
    T *const border = p.borders + piece * of_piece + place, factors[U], from_zero[U];
    Transition::factors(factors, p.step_sums[piece * inner + channel], rates.a);
#pragma unroll
    for (int j = 0; j < U; ++j) from_zero[j] = border[j], border[j] = d_state[j];
    // The last segment began with d_final: there border is all of it.
    Transition::retreat(d_state, factors, from_zero);
  }
}

template <class Of, class Transition, bool BORDERS>
void launch_backward(const Scan<typename Of::Scalar>& p, const ScanGradients<typename Of::Scalar>& gradients,
                     cudaStream_t stream) {
  const std::size_t bytes =
      sizeof(typename Of::Scalar) * static_cast<std::size_t>(Layout<Of>::size(p.sizes.rank));
  cuda::allow_shared_memory(backward_kernel<Of, Transition, BORDERS>, bytes);
  const dim3 grid(static_cast<unsigned>(p.batch * p.segments.count),
                  static_cast<unsigned>((p.sizes.inner + Of::channels - 1) / Of::channels));
  backward_kernel<Of, Transition, BORDERS><<<grid, Of::threads, bytes, stream>>>(p, gradients);
}

template <class T, class Transition>
void scan_backward(const Scan<T>& problem, const ScanGradients<T>& gradients, cudaStream_t stream) {
  with_shape<T>(problem.sizes.states, [&](auto of) {
    using Of = decltype(of);
    if (problem.segments.count > 1) {
      launch_backward<Of, Transition, true>(problem, gradients, stream);
      const std::size_t count = static_cast<std::size_t>(problem.batch) *
                                static_cast<std::size_t>(problem.sizes.inner) * Of::states / Transition::unit;
      backward_chain_kernel<T, Transition>
          <<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(problem, Of::states);
    }
    launch_backward<Of, Transition, false>(problem, gradients, stream);
  });
}

}  // namespace

}  // namespace mac::selective
