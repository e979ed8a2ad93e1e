// The convolution and the scan where the states after every step are in memory: single steps of many sequences, and
// short sequences whose states others read on from. A thread has a channel of a sequence, and goes through its steps; a
// block has some channels of every so-many-th sequence, whose gradients of weights its threads sum. The way back reads
// the state before each step, so that nothing is kept or computed anew but Δ and one step of the states.
//
// Reading and writing the states, (states, inner) of a sequence, takes nearly all of the time.
#include <algorithm>

#include "network/cuda/general/activations.cuh"
#include "network/cuda/launch_plan.hpp"
#include "network/kinds/mamba/cuda/general.hpp"
#include "network/kinds/mamba/cuda/general_scan.cuh"

namespace mac::mamba {

namespace {

constexpr int most_blocks = 1056;  // that share the sequences out; the order of sums hangs on it
constexpr int window = 3;

/// Channels of a block, so that three numbers for each of their states fit shared memory.
int block_channels(int states) { return states <= 64 ? 128 : 32; }

int channel_blocks(const ScanSizes& sizes) {
  const int channels = block_channels(sizes.states);
  return (sizes.inner + channels - 1) / channels;
}

template <class T>
__device__ T* before(BlockStates<T> initial, BlockStates<T> after, std::size_t sequence, int t) {
  if (t > 0) return after.of(sequence) + static_cast<std::size_t>(t - 1) * after.step;
  return initial ? initial.of(sequence) : nullptr;
}

// -- convolution --------------------------------------------------------------------------------------------------------

constexpr int convolution_threads = 128;

template <class T>
struct Weights {
  T k[4], bias;

  __device__ Weights(const Convolution<T>& p, int channel) : bias(p.bias[channel]) {
    for (int i = 0; i < 4; ++i) k[i] = p.weight[4 * channel + i];
  }
  /// c_t from x_{t−3}, .., x_t
  __device__ T apply(const T (&x)[4]) const {
    T sum = bias;
    for (int i = 0; i < 4; ++i) sum = fma(k[i], x[i], sum);
    return sum;
  }
};

/// x at time t from −3 on, or zero before and after.
template <class T>
__device__ T input_at(const Convolution<T>& p, std::size_t sequence, int channel, int t) {
  if (t >= p.time || t < -window) return 0;
  if (t >= 0) return p.x[(sequence * p.time + t) * 2 * p.inner + channel];
  return p.initial ? p.initial.of(sequence)[(t + window) * p.inner + channel] : 0;
}

template <class T>
__global__ void __launch_bounds__(convolution_threads)
    convolution_forward_kernel(Convolution<T> p, T* v, BlockStates<T> states) {
  const int channel = static_cast<int>(blockIdx.y * convolution_threads + threadIdx.x);
  if (channel >= p.inner) return;
  const Weights<T> w(p, channel);
  for (std::size_t sequence = blockIdx.x; sequence < p.batch; sequence += gridDim.x) {
    T x[4] = {0, input_at(p, sequence, channel, -3), input_at(p, sequence, channel, -2),
              input_at(p, sequence, channel, -1)};
    for (int t = 0; t < p.time; ++t) {
      x[0] = x[1], x[1] = x[2], x[2] = x[3], x[3] = input_at(p, sequence, channel, t);
      v[(sequence * p.time + t) * p.inner + channel] = cuda::silu(w.apply(x));
      if (T* const after = states.after(sequence, t, p.time))
        for (int k = 0; k < window; ++k) after[k * p.inner + channel] = x[k + 1];
    }
  }
}

/// From the last step to the first, and on to the inputs before it: d_x_t = Σ_k w_k d_c_{t+3−k}, and what the states
/// after t, t+1 and t+2, which hold x_t, ask for.
template <class T>
__global__ void __launch_bounds__(convolution_threads)
    convolution_backward_kernel(Convolution<T> p, ConvolutionGradients<T> gradients) {
  const int channel = static_cast<int>(blockIdx.y * convolution_threads + threadIdx.x);
  if (channel >= p.inner) return;
  const Weights<T> w(p, channel);
  T d_w[4] = {}, d_bias = 0;
  for (std::size_t sequence = blockIdx.x; sequence < p.batch; sequence += gridDim.x) {
    T later[3] = {};
    T x[4];
    for (int k = 0; k < 4; ++k) x[k] = input_at(p, sequence, channel, p.time - 4 + k);
    for (int t = p.time - 1; t >= -window; --t) {
      const std::size_t row = sequence * p.time + t;
      T d_c = 0;
      if (t >= 0) {
        const T c = w.apply(x);
        d_c = gradients.d_v[row * p.inner + channel] * cuda::silu_slope(c, cuda::sigmoid(c));
      }
      T d_x = fma(w.k[3], d_c, fma(w.k[2], later[0], fma(w.k[1], later[1], w.k[0] * later[2])));
      for (int k = 0; k < window; ++k)
        if (const int after = t + 2 - k; after >= 0 && after < p.time)
          if (const T* const d_state = gradients.d_final.after(sequence, after, p.time))
            d_x += d_state[k * p.inner + channel];
      if (t >= 0) {
        gradients.d_x[row * 2 * p.inner + channel] = d_x;
        for (int k = 0; k < 4; ++k) d_w[k] = fma(d_c, x[k], d_w[k]);
        d_bias += d_c;
      } else if (gradients.d_initial) {
        gradients.d_initial.of(sequence)[(t + window) * p.inner + channel] = d_x;
      }
      later[2] = later[1], later[1] = later[0], later[0] = d_c;
      x[3] = x[2], x[2] = x[1], x[1] = x[0], x[0] = input_at(p, sequence, channel, t - 4);
    }
  }
  T* const to = gradients.parts + static_cast<std::size_t>(blockIdx.x) * 5 * p.inner;
  for (int k = 0; k < 4; ++k) to[4 * channel + k] = d_w[k];
  to[4 * p.inner + channel] = d_bias;
}

template <class T>
dim3 convolution_grid(const Convolution<T>& p) {
  return dim3(static_cast<unsigned>(step_parts(static_cast<std::size_t>(p.batch))),
              static_cast<unsigned>((p.inner + convolution_threads - 1) / convolution_threads));
}

// -- scan ---------------------------------------------------------------------------------------------------------------

/// A thread's channel, and its rates of decay A log₂e in shared memory, (states, threads).
template <class T>
struct Channel {
  int number;
  bool exists;
  T* rates;

  __device__ Channel(const Scan<T>& p, T* shared)
      : number(static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x)),
        exists(number < p.sizes.inner),
        rates(shared + threadIdx.x) {
    for (int n = 0; n < p.sizes.states; ++n)
      rate(n) = exists ? decay_rate(p.A_log[number * p.sizes.states + n]) : 0;
  }
  __device__ T& rate(int n) { return rates[n * blockDim.x]; }
  /// Δ
  __device__ T step(const Scan<T>& p, const T* projected) const {
    if (!exists) return 0;
    T sum = p.step_bias[number];
    for (int k = 0; k < p.sizes.rank; ++k)
      sum = fma(p.step_weight[number * p.sizes.rank + k], projected[k], sum);
    return cuda::softplus(sum);
  }
};

template <class T>
__global__ void scan_forward_kernel(Scan<T> p, T* gated, BlockStates<T> states) {
  extern __shared__ float4 shared_fours[];
  Channel<T> channel(p, reinterpret_cast<T*>(shared_fours));
  if (!channel.exists) return;
  const int c = channel.number, inner = p.sizes.inner, n_states = p.sizes.states;
  const T D = p.D[c];
  for (std::size_t sequence = blockIdx.x; sequence < p.batch; sequence += gridDim.x)
    for (int t = 0; t < p.time; ++t) {
      const std::size_t row = sequence * p.time + t;
      const T* const projected = p.projected + row * p.sizes.projected();
      const T *const B = projected + p.sizes.rank, *const C = B + n_states;
      const T* const from =
          before<const T>(p.initial, {states.data, states.stride, states.step}, sequence, t);
      T* const to = states.after(sequence, t, p.time);
      const T step = channel.step(p, projected), v = p.v[row * inner + c], step_v = step * v;
      T sum = 0;
#pragma unroll 8
      for (int n = 0; n < n_states; ++n) {
        const T s = fma(power_of_2(step * channel.rate(n)), from ? from[n * inner + c] : 0, step_v * B[n]);
        if (to) to[n * inner + c] = s;
        sum = fma(C[n], s, sum);
      }
      gated[row * inner + c] = (sum + D * v) * silu(p.z[row * 2 * inner + c]);
    }
}

/// Some states at once, whose sums over channels are folded together.
constexpr int states_at_once = 8;

template <class T>
__global__ void scan_backward_kernel(Scan<T> p, ScanGradients<T> d) {
  constexpr T ln_2 = 0.693147180559945309417;
  const int inner = p.sizes.inner, n_states = p.sizes.states, threads = static_cast<int>(blockDim.x),
            warps = threads / 32, padded = (n_states + states_at_once - 1) / states_at_once * states_at_once;
  // (states, threads): rates, their gradients, and the gradients of the states before a step; then (warp, B and C).
  extern __shared__ float4 shared_fours[];
  T* const shared = reinterpret_cast<T*>(shared_fours);
  Channel<T> channel(p, shared);
  T* const d_rates = channel.rates + n_states * threads;
  T* const d_before = d_rates + n_states * threads;
  T* const of_warps = shared + 3 * n_states * threads;
  for (int n = 0; n < n_states; ++n) d_rates[n * threads] = 0;
  const int c = channel.number;
  const bool exists = channel.exists;
  const T D = exists ? p.D[c] : 0;
  T d_D = 0, d_bias = 0;

  for (std::size_t sequence = blockIdx.x; sequence < p.batch; sequence += gridDim.x)
    for (int t = p.time - 1; t >= 0; --t) {
      const std::size_t row = sequence * p.time + t;
      const T* const projected = p.projected + row * p.sizes.projected();
      const T *const B = projected + p.sizes.rank, *const C = B + n_states;
      const T* const from = before<const T>(p.initial, p.after, sequence, t);
      const T* const d_after = d.d_final.after(sequence, t, p.time);
      T* const d_initial = t == 0 && d.d_initial ? d.d_initial.of(sequence) : nullptr;
      const T step = channel.step(p, projected), v = exists ? p.v[row * inner + c] : 0, step_v = step * v,
              z = exists ? p.z[row * 2 * inner + c] : 0, d_gated = exists ? d.d_gated[row * inner + c] : 0,
              d_p = d_gated * silu(z);
      T scanned = 0, q = 0, d_decay = 0;
      for (int first = 0; first < n_states; first += states_at_once) {
        T of_BC[2 * states_at_once];
#pragma unroll
        for (int i = 0; i < states_at_once; ++i) {
          const int n = first + i;
          of_BC[i] = of_BC[states_at_once + i] = 0;
          if (n >= n_states || !exists) continue;
          const T rate = channel.rate(n), decay = power_of_2(step * rate),
                  decayed = decay * (from ? from[n * inner + c] : 0), s = fma(step_v, B[n], decayed);
          T d_s = t + 1 < p.time ? d_before[n * threads] : 0;
          if (d_after) d_s += d_after[n * inner + c];
          d_s = fma(d_p, C[n], d_s);
          scanned = fma(C[n], s, scanned);
          q = fma(d_s, B[n], q);
          const T of_rate = d_s * decayed;
          d_decay = fma(of_rate, rate, d_decay);
          d_rates[n * threads] = fma(of_rate, step, d_rates[n * threads]);
          of_BC[i] = d_s * step_v;
          of_BC[states_at_once + i] = d_p * s;
          if (t > 0) d_before[n * threads] = d_s * decay;
          if (d_initial) d_initial[n * inner + c] = d_s * decay;
        }
        const int place = fold<1, 32>(of_BC);
        if (place < 0) continue;
        const int n = first + place % states_at_once;
        of_warps[threadIdx.x / 32 * 2 * padded + (place < states_at_once ? n : padded + n)] = of_BC[0];
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
        const std::size_t rows = static_cast<std::size_t>(p.batch) * p.time;
        d.d_BC[(blockIdx.y * rows + row) * 2 * n_states + j] = sum;
      }
      __syncthreads();
    }

  if (!exists) return;
  T* const to = d.parts + static_cast<std::size_t>(blockIdx.x) * inner * (n_states + 2);
  for (int n = 0; n < n_states; ++n)  // dA/dA_log = A
    to[c * n_states + n] = d_rates[n * threads] * channel.rate(n) * ln_2;
  to[inner * n_states + c] = d_D;
  to[inner * (n_states + 1) + c] = d_bias;
}

template <class T>
dim3 scan_grid(const Scan<T>& p) {
  return dim3(static_cast<unsigned>(step_parts(static_cast<std::size_t>(p.batch))),
              static_cast<unsigned>(channel_blocks(p.sizes)));
}

}  // namespace

std::size_t step_parts(std::size_t batch) { return std::min<std::size_t>(batch, most_blocks); }

int step_channel_blocks(const ScanSizes& sizes) { return channel_blocks(sizes); }

template <class T>
void convolution_steps_forward(const Convolution<T>& problem, T* v, BlockStates<T> states,
                               cudaStream_t stream) {
  convolution_forward_kernel<<<convolution_grid(problem), convolution_threads, 0, stream>>>(problem, v,
                                                                                            states);
}

template <class T>
void convolution_steps_backward(const Convolution<T>& problem, const ConvolutionGradients<T>& gradients,
                                cudaStream_t stream) {
  convolution_backward_kernel<<<convolution_grid(problem), convolution_threads, 0, stream>>>(problem,
                                                                                             gradients);
}

template <class T>
void scan_steps_forward(const Scan<T>& problem, T* gated, BlockStates<T> states, cudaStream_t stream) {
  const int threads = block_channels(problem.sizes.states);
  const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(problem.sizes.states * threads);
  cuda::allow_shared_memory(scan_forward_kernel<T>, bytes);
  scan_forward_kernel<<<scan_grid(problem), threads, bytes, stream>>>(problem, gated, states);
}

template <class T>
void scan_steps_backward(const Scan<T>& problem, const ScanGradients<T>& gradients, cudaStream_t stream) {
  const int states = problem.sizes.states, threads = block_channels(states),
            padded = (states + states_at_once - 1) / states_at_once * states_at_once;
  const std::size_t bytes =
      sizeof(T) * static_cast<std::size_t>(3 * states * threads + threads / 32 * 2 * padded);
  cuda::allow_shared_memory(scan_backward_kernel<T>, bytes);
  scan_backward_kernel<<<scan_grid(problem), threads, bytes, stream>>>(problem, gradients);
}

#define MAC_SCALAR(T)                                                                                  \
  template void convolution_steps_forward<T>(const Convolution<T>&, T*, BlockStates<T>, cudaStream_t); \
  template void convolution_steps_backward<T>(const Convolution<T>&, const ConvolutionGradients<T>&,   \
                                              cudaStream_t);                                           \
  template void scan_steps_forward<T>(const Scan<T>&, T*, BlockStates<T>, cudaStream_t);               \
  template void scan_steps_backward<T>(const Scan<T>&, const ScanGradients<T>&, cudaStream_t);
MAC_SCALAR(float)
MAC_SCALAR(double)
#undef MAC_SCALAR

}  // namespace mac::mamba
