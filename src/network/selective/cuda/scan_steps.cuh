// The scan where the states after every step are in memory, for the kernels of a kind: single steps of many sequences, and short
// sequences whose states others read on from. A thread has a channel of a sequence, and goes through its steps; a block
// has some channels of every so-many-th sequence, whose gradients of weights its threads sum. The way back reads the
// state before each step, so that nothing is kept or computed anew but Δ and one step of the states.
//
// Reading and writing the states, (states, inner) of a sequence, takes nearly all of the time, where few instructions come
// between. So kernels are compiled for single steps that go through the states WHOLE at once, without a question at
// each; WHOLE = 0 is for any number of steps and states. A thread reads some states before it writes any: what is read later
// would wait for what was written.
#pragma once

#include "network/cuda/general/activations.cuh"
#include "network/cuda/launch_plan.hpp"
#include "network/selective/cuda/scan.cuh"

namespace mac::selective {

namespace {

template <class T>
__device__ T* states_before(BlockStates<T> initial, BlockStates<T> after, std::size_t sequence, int t) {
  if (t > 0) return after.of(sequence) + static_cast<std::size_t>(t - 1) * after.step;
  return initial ? initial.of(sequence) : nullptr;
}

template <int WHOLE>
constexpr int states_at_once = WHOLE > 0 ? WHOLE : 4;  // that a thread reads
template <int WHOLE>
__device__ int threads_of_block() {
  return WHOLE > 0 ? most_step_channels : static_cast<int>(blockDim.x);
}

/// A thread's channel, and the rates of its states in shared memory, (states, threads). A thread beyond the last channel reads
/// that one.
template <class T, class Transition, int WHOLE>
struct Channel {
  static constexpr int U = Transition::unit;
  static_assert(states_at_once<WHOLE> % U == 0);
  int number;
  bool exists;
  T* rates;

  __device__ Channel(const Scan<T>& p, T* shared)
      : number(static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x)),
        exists(number < p.sizes.inner),
        rates(shared + threadIdx.x) {
    number = min(number, p.sizes.inner - 1);
    for (int n = 0; n < p.sizes.states; ++n)
      rates[n * threads_of_block<WHOLE>()] = Transition::rate(p, number, n);
  }
  /// Of the unit of states that begins with state n.
  __device__ void rates_of(T (&unit)[U], int n) const {
#pragma unroll
    for (int j = 0; j < U; ++j) unit[j] = rates[(n + j) * threads_of_block<WHOLE>()];
  }
  /// Δ
  __device__ T step(const Scan<T>& p, const T* projected) const {
    T sum = p.step_bias[number];
    for (int k = 0; k < p.sizes.rank; ++k)
      sum = fma(p.step_weight[number * p.sizes.rank + k], projected[k], sum);
    return cuda::softplus(sum);
  }
};

/// Blocks that share a multiprocessor, so that its memory is kept busy.
template <class T>
constexpr int steps_blocks = sizeof(T) > sizeof(float) ? 4 : 8;

/// Some states of a channel from number `first` on, (states, inner), as far as they exist; zeros without any.
template <int WHOLE, class T>
__device__ void read_some(T (&some)[states_at_once<WHOLE>], const T* from, int first, int count, int inner,
                          int c) {
#pragma unroll
  for (int i = 0; i < states_at_once<WHOLE>; ++i)
    some[i] = from && (WHOLE > 0 || first + i < count) ? from[(first + i) * inner + c] : T(0);
}
template <int WHOLE, class T>
__device__ void write_some(T* to, const T (&some)[states_at_once<WHOLE>], int first, int count, int inner,
                           int c) {
  if (!to) return;
#pragma unroll
  for (int i = 0; i < states_at_once<WHOLE>; ++i)
    if (WHOLE > 0 || first + i < count) to[(first + i) * inner + c] = some[i];
}

template <class T, class Transition, int WHOLE>
__global__ void __launch_bounds__(most_step_channels, steps_blocks<T>)
    forward_steps_kernel(Scan<T> p, T* gated, BlockStates<T> states) {
  constexpr int U = Transition::unit, some_states = states_at_once<WHOLE>;
  extern __shared__ float4 shared_fours[];
  const Channel<T, Transition, WHOLE> channel(p, reinterpret_cast<T*>(shared_fours));
  if (!channel.exists) return;
  const int c = channel.number, inner = p.sizes.inner, n_states = p.sizes.states,
            time = WHOLE > 0 ? 1 : p.time;
  const T D = p.D[c];
  for (std::size_t sequence = blockIdx.x; sequence < p.batch; sequence += gridDim.x)
    for (int t = 0; t < time; ++t) {
      const std::size_t row = sequence * time + t;
      const T* const projected = p.projected + row * p.sizes.projected();
      const T *const B = projected + p.sizes.rank, *const C = B + n_states;
      const T* const from =
          states_before<const T>(p.initial, {states.data, states.stride, states.step}, sequence, t);
      T* const to = states.after(sequence, t, time);
      T some[some_states];
      read_some<WHOLE>(some, from, 0, n_states, inner, c);  // on their way while Δ is computed
      const T step = channel.step(p, projected), v = p.v[row * inner + c], step_v = step * v;
      T sum = 0;
      for (int first = 0; first < n_states; first += some_states) {
        if (first > 0) read_some<WHOLE>(some, from, first, n_states, inner, c);
#pragma unroll
        for (int i = 0; i < some_states; i += U) {
          const int n = first + i;
          if (WHOLE == 0 && n >= n_states) break;
          T rates[U], factors[U], drive[U], s[U];
          channel.rates_of(rates, n);
          Transition::factors(factors, step, rates);
#pragma unroll
          for (int j = 0; j < U; ++j) s[j] = some[i + j], drive[j] = step_v * B[n + j];
          Transition::advance(s, factors, drive);
#pragma unroll
          for (int j = 0; j < U; ++j) some[i + j] = s[j], sum = fma(C[n + j], s[j], sum);
        }
        write_some<WHOLE>(to, some, first, n_states, inner, c);
      }
      gated[row * inner + c] = (sum + D * v) * silu(p.z[row * 2 * inner + c]);
    }
}

template <class T, class Transition, int WHOLE>
__global__ void __launch_bounds__(most_step_channels, steps_blocks<T>)
    backward_steps_kernel(Scan<T> p, ScanGradients<T> d) {
  constexpr int U = Transition::unit, some_states = states_at_once<WHOLE>;
  constexpr T ln_2 = 0.693147180559945309417;
  const int inner = p.sizes.inner, n_states = p.sizes.states, threads = threads_of_block<WHOLE>(),
            warps = threads / 32, time = WHOLE > 0 ? 1 : p.time,
            padded = (n_states + some_states - 1) / some_states * some_states;
  // (states, threads): rates, their gradients, and the gradients of the states before a step, if several; then (warp, B and C).
  extern __shared__ float4 shared_fours[];
  T* const shared = reinterpret_cast<T*>(shared_fours);
  const Channel<T, Transition, WHOLE> channel(p, shared);
  T* const d_rates = channel.rates + n_states * threads;
  T* const d_before = d_rates + n_states * threads;
  T* const of_warps = shared + (WHOLE > 0 ? 2 : 3) * n_states * threads;
  for (int n = 0; n < n_states; ++n) d_rates[n * threads] = 0;
  const int c = channel.number;
  const bool exists = channel.exists;
  const T D = p.D[c];
  T d_D = 0, d_bias = 0;

  for (std::size_t sequence = blockIdx.x; sequence < p.batch; sequence += gridDim.x)
    for (int t = time - 1; t >= 0; --t) {
      const std::size_t row = sequence * time + t;
      const T* const projected = p.projected + row * p.sizes.projected();
      const T *const B = projected + p.sizes.rank, *const C = B + n_states;
      const T* const from = states_before<const T>(p.initial, p.after, sequence, t);
      const T* const d_after = d.d_final.after(sequence, t, time);
      T* const d_initial = exists && t == 0 && d.d_initial ? d.d_initial.of(sequence) : nullptr;
      // A thread without a channel adds nothing to the sums over channels.
      const T step = channel.step(p, projected), v = exists ? p.v[row * inner + c] : 0, step_v = step * v,
              z = p.z[row * 2 * inner + c], d_gated = exists ? d.d_gated[row * inner + c] : 0,
              d_p = d_gated * silu(z);
      T scanned = 0, q = 0, d_decay = 0;
      for (int first = 0; first < n_states; first += some_states) {
        T some[some_states], d_some[some_states], of_BC[2 * some_states];  // of_BC is summed over channels
        read_some<WHOLE>(some, from, first, n_states, inner, c);
        read_some<WHOLE>(d_some, d_after, first, n_states, inner, c);
#pragma unroll
        for (int i = 0; i < some_states; i += U) {
          const int n = first + i;
#pragma unroll
          for (int j = i; j < i + U; ++j) of_BC[j] = of_BC[some_states + j] = 0;
          if (WHOLE == 0 && n >= n_states) continue;
          T rates[U], factors[U], drive[U], before[U], s[U], d_s[U], exponents[U], nothing[U] = {};
          channel.rates_of(rates, n);
          Transition::factors(factors, step, rates);
#pragma unroll
          for (int j = 0; j < U; ++j) {
            before[j] = s[j] = some[i + j];
            drive[j] = step_v * B[n + j];
            d_s[j] = d_some[i + j];
            if (WHOLE == 0 && t + 1 < time) d_s[j] += d_before[(n + j) * threads];
          }
          Transition::advance(s, factors, drive);
#pragma unroll
          for (int j = 0; j < U; ++j) {
            d_s[j] = fma(d_p, C[n + j], d_s[j]);
            scanned = fma(C[n + j], s[j], scanned);
            q = fma(d_s[j], B[n + j], q);
            of_BC[i + j] = d_s[j] * step_v;
            of_BC[some_states + i + j] = d_p * s[j];
          }
          Transition::exponents(exponents, d_s, factors, before);
          Transition::retreat(d_s, factors, nothing);
#pragma unroll
          for (int j = 0; j < U; ++j) {
            d_decay = fma(exponents[j], rates[j], d_decay);
            d_rates[(n + j) * threads] = fma(exponents[j], step, d_rates[(n + j) * threads]);
            if (WHOLE == 0 && t > 0) d_before[(n + j) * threads] = d_s[j];
            d_some[i + j] = d_s[j];
          }
        }
        write_some<WHOLE>(d_initial, d_some, first, n_states, inner, c);
        const int place = fold<1, 32>(of_BC);
        if (place < 0) continue;
        const int n = first + place % some_states;
        of_warps[threadIdx.x / 32 * 2 * padded + (place < some_states ? n : padded + n)] = of_BC[0];
      }
      if (exists) {
        d.d_z[row * 2 * inner + c] = d_gated * fma(D, v, scanned) * silu_slope(z, sigmoid(z));
        d.d_v[row * inner + c] = fma(step, q, D * d_p);
        // dA/da = ln 2; the derivative of softplus is 1 − e^(−Δ).
        const T d_step = fma(ln_2, d_decay, v * q) * -expm1(-step);
        d.d_step[row * inner + c] = d_step;
        d_D = fma(d_p, v, d_D);
        d_bias += d_step;
      }
      __syncthreads();
      for (int j = static_cast<int>(threadIdx.x); j < 2 * n_states; j += threads) {
        T sum = 0;
        for (int warp = 0; warp < warps; ++warp)
          sum += of_warps[warp * 2 * padded + (j < n_states ? j : padded + j - n_states)];
        const std::size_t rows = static_cast<std::size_t>(p.batch) * time;
        d.d_BC[(blockIdx.y * rows + row) * 2 * n_states + j] = sum;
      }
      __syncthreads();
    }

  if (!exists) return;
  T* const to = d.parts + static_cast<std::size_t>(blockIdx.x) * inner * (n_states + 2);
  for (int n = 0; n < n_states; ++n)  // a rate's derivative by its logarithm is itself
    to[Transition::place(c, n, inner, n_states)] = d_rates[n * threads] * channel.rates[n * threads] * ln_2;
  to[inner * n_states + c] = d_D;
  to[inner * (n_states + 1) + c] = d_bias;
}

template <class T>
dim3 steps_grid(const Scan<T>& p) {
  return dim3(static_cast<unsigned>(step_parts(static_cast<std::size_t>(p.batch))),
              static_cast<unsigned>(step_channel_blocks<T>(p.sizes)));
}

/// f(WHOLE) as a constant.
template <class T, class F>
void with_whole(const Scan<T>& problem, F f) {
  const int states = problem.sizes.states;
  if (problem.time > 1 || step_block_channels<T>(problem.sizes) != most_step_channels || states % 4 != 0)
    return f(std::integral_constant<int, 0>());
  if (states % 8 == 0) return f(std::integral_constant<int, 8>());
  return f(std::integral_constant<int, 4>());
}

template <class T, class Transition>
void scan_steps_forward(const Scan<T>& problem, T* gated, BlockStates<T> states, cudaStream_t stream) {
  const int threads = step_block_channels<T>(problem.sizes);
  const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(problem.sizes.states * threads);
  with_whole(problem, [&](auto whole) {
    const auto kernel = forward_steps_kernel<T, Transition, whole>;
    cuda::allow_shared_memory(kernel, bytes);
    kernel<<<steps_grid(problem), threads, bytes, stream>>>(problem, gated, states);
  });
}

template <class T, class Transition>
void scan_steps_backward(const Scan<T>& problem, const ScanGradients<T>& gradients, cudaStream_t stream) {
  with_whole(problem, [&](auto whole) {
    const int states = problem.sizes.states, threads = step_block_channels<T>(problem.sizes),
              at_once = states_at_once<whole>, padded = (states + at_once - 1) / at_once * at_once,
              of_channels = (whole > 0 ? 2 : 3) * states * threads, of_warps = threads / 32 * 2 * padded;
    const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(of_channels + of_warps);
    const auto kernel = backward_steps_kernel<T, Transition, whole>;
    cuda::allow_shared_memory(kernel, bytes);
    kernel<<<steps_grid(problem), threads, bytes, stream>>>(problem, gradients);
  });
}

}  // namespace

}  // namespace mac::selective
