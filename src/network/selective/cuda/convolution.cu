#include <algorithm>

#include "network/cuda/general/activations.cuh"
#include "network/selective/cuda/general.hpp"

namespace mac::selective {

namespace {

using namespace cuda;

constexpr int threads = 128, window = 3;
constexpr int forward_steps = 32, backward_steps = 64;  // of a thread

/// x at time t from −3 on, or zero before and after.
template <class T>
__device__ T input_at(const Convolution<T>& p, std::size_t sequence, int channel, int t) {
  if (t >= p.time || t < -window) return 0;
  if (t >= 0) return p.x[(sequence * p.time + t) * 2 * p.inner + channel];
  return p.initial ? p.initial.of(sequence)[(t + window) * p.inner + channel] : 0;
}

/// A channel of a run of steps [first, end) of a sequence.
template <class T>
struct Run {
  int channel, first, end;
  std::size_t sequence, part;  // part: number of the run among those of all sequences

  __device__ Run(const Convolution<T>& p, int steps) {
    const int channel_blocks = (p.inner + threads - 1) / threads, runs = (p.time + steps - 1) / steps;
    part = blockIdx.x / channel_blocks;
    channel = static_cast<int>(blockIdx.x % channel_blocks * threads + threadIdx.x);
    sequence = part / runs;
    first = static_cast<int>(part % runs) * steps;
    end = min(first + steps, p.time);
  }
  __device__ T x(const Convolution<T>& p, int t) const { return input_at(p, sequence, channel, t); }
};

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

template <class T>
__device__ void leave_parts(const Convolution<T>& p, const ConvolutionGradients<T>& gradients,
                            std::size_t part, int channel, const T (&d_w)[4], T d_bias) {
  T* const to = gradients.parts + part * 5 * p.inner;
  for (int k = 0; k < 4; ++k) to[4 * channel + k] = d_w[k];
  to[4 * p.inner + channel] = d_bias;
}

template <class T>
__global__ void __launch_bounds__(threads)
    forward_kernel(Convolution<T> p, T* v, BlockStates<T> final_state) {
  const Run<T> run(p, forward_steps);
  if (run.channel >= p.inner) return;
  const Weights<T> w(p, run.channel);
  T x[4] = {0, run.x(p, run.first - 3), run.x(p, run.first - 2), run.x(p, run.first - 1)};
  for (int t = run.first; t < run.end; ++t) {
    x[0] = x[1], x[1] = x[2], x[2] = x[3], x[3] = run.x(p, t);
    v[(run.sequence * p.time + t) * p.inner + run.channel] = silu(w.apply(x));
  }
  if (final_state && run.end == p.time)
    for (int k = 0; k < window; ++k)
      final_state.of(run.sequence)[k * p.inner + run.channel] = run.x(p, p.time - window + k);
}

/// From the last step of a run to its first: d_x_t = Σ_k w_k d_c_{t+3−k}. The run begins with the three d_c after it; the
/// first one of a sequence goes on to the inputs before it.
template <class T>
__global__ void __launch_bounds__(threads)
    backward_kernel(Convolution<T> p, ConvolutionGradients<T> gradients) {
  const Run<T> run(p, backward_steps);
  if (run.channel >= p.inner) return;
  const Weights<T> w(p, run.channel);
  T d_w[4] = {}, d_bias = 0, later[3] = {};
  int t = run.end + 2;
  T x[4] = {run.x(p, t - 3), run.x(p, t - 2), run.x(p, t - 1), run.x(p, t)};
  for (const int last = run.first == 0 ? -window : run.first; t >= last; --t) {
    const std::size_t row = run.sequence * p.time + t;
    T d_c = 0;
    if (t >= 0 && t < p.time) {
      const T c = w.apply(x);
      d_c = gradients.d_v[row * p.inner + run.channel] * silu_slope(c, sigmoid(c));
    }
    if (t < run.end) {
      T d_x = fma(w.k[3], d_c, fma(w.k[2], later[0], fma(w.k[1], later[1], w.k[0] * later[2])));
      if (gradients.d_final && t >= p.time - window)
        d_x += gradients.d_final.of(run.sequence)[(t - (p.time - window)) * p.inner + run.channel];
      if (t >= 0) {
        gradients.d_x[row * 2 * p.inner + run.channel] = d_x;
        for (int k = 0; k < 4; ++k) d_w[k] = fma(d_c, x[k], d_w[k]);
        d_bias += d_c;
      } else if (gradients.d_initial) {
        gradients.d_initial.of(run.sequence)[(t + window) * p.inner + run.channel] = d_x;
      }
    }
    later[2] = later[1], later[1] = later[0], later[0] = d_c;
    x[3] = x[2], x[2] = x[1], x[1] = x[0], x[0] = run.x(p, t - 4);
  }
  leave_parts(p, gradients, run.part, run.channel, d_w, d_bias);
}

template <class T>
unsigned blocks_of(const Convolution<T>& p, int steps) {
  return static_cast<unsigned>((p.inner + threads - 1) / threads) *
         static_cast<unsigned>((p.time + steps - 1) / steps) * static_cast<unsigned>(p.batch);
}

// -- where the states after every step are in memory: single steps of many sequences, and short sequences whose states others
// read on from. A thread has a channel of a sequence, and goes through its steps; a block has some channels of every
// so-many-th sequence, whose gradients of weights its threads sum.

constexpr int most_blocks = 1056;  // that share the sequences out; the order of sums hangs on it

template <class T>
__global__ void __launch_bounds__(threads)
    forward_steps_kernel(Convolution<T> p, T* v, BlockStates<T> states) {
  const int channel = static_cast<int>(blockIdx.y * threads + threadIdx.x);
  if (channel >= p.inner) return;
  const Weights<T> w(p, channel);
  for (std::size_t sequence = blockIdx.x; sequence < p.batch; sequence += gridDim.x) {
    T x[4] = {0, input_at(p, sequence, channel, -3), input_at(p, sequence, channel, -2),
              input_at(p, sequence, channel, -1)};
    for (int t = 0; t < p.time; ++t) {
      x[0] = x[1], x[1] = x[2], x[2] = x[3], x[3] = input_at(p, sequence, channel, t);
      v[(sequence * p.time + t) * p.inner + channel] = silu(w.apply(x));
      if (T* const after = states.after(sequence, t, p.time))
        for (int k = 0; k < window; ++k) after[k * p.inner + channel] = x[k + 1];
    }
  }
}

/// From the last step to the first, and on to the inputs before it: d_x_t = Σ_k w_k d_c_{t+3−k}, and what the states
/// after t, t+1 and t+2, which hold x_t, ask for.
template <class T>
__global__ void __launch_bounds__(threads)
    backward_steps_kernel(Convolution<T> p, ConvolutionGradients<T> gradients) {
  const int channel = static_cast<int>(blockIdx.y * threads + threadIdx.x);
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
        d_c = gradients.d_v[row * p.inner + channel] * silu_slope(c, sigmoid(c));
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
  leave_parts(p, gradients, blockIdx.x, channel, d_w, d_bias);
}

/// What the way back through a single step reads of a channel of a sequence.
template <class T>
struct SingleStep {
  T x[4], d_v, d_state[window];

  __device__ SingleStep(const Convolution<T>& p, const ConvolutionGradients<T>& gradients,
                        std::size_t sequence, int channel)
      : d_v(gradients.d_v[sequence * p.inner + channel]) {
    for (int k = 0; k < 4; ++k) x[k] = input_at(p, sequence, channel, k - window);
    const T* const d_final = gradients.d_final ? gradients.d_final.of(sequence) : nullptr;
    for (int k = 0; k < window; ++k) d_state[k] = d_final ? d_final[k * p.inner + channel] : T(0);
  }
};

/// The same for a single step. A thread reads the next sequence before it writes what comes of this one.
template <class T>
__global__ void __launch_bounds__(threads)
    backward_single_kernel(Convolution<T> p, ConvolutionGradients<T> gradients) {
  const int channel = static_cast<int>(blockIdx.y * threads + threadIdx.x);
  if (channel >= p.inner) return;
  const Weights<T> w(p, channel);
  T d_w[4] = {}, d_bias = 0;
  std::size_t sequence = blockIdx.x;  // there are no more blocks than sequences
  SingleStep<T> next(p, gradients, sequence, channel);
  while (sequence < p.batch) {
    const SingleStep<T> now = next;
    const std::size_t following = sequence + gridDim.x;
    if (following < p.batch) next = SingleStep<T>(p, gradients, following, channel);
    const T c = w.apply(now.x), d_c = now.d_v * silu_slope(c, sigmoid(c));
    for (int k = 0; k < 4; ++k) d_w[k] = fma(d_c, now.x[k], d_w[k]);
    d_bias += d_c;
    gradients.d_x[sequence * 2 * p.inner + channel] = fma(w.k[3], d_c, now.d_state[2]);
    if (gradients.d_initial) {
      T* const d_initial = gradients.d_initial.of(sequence) + channel;
      d_initial[0] = w.k[0] * d_c;
      for (int k = 1; k < window; ++k) d_initial[k * p.inner] = fma(w.k[k], d_c, now.d_state[k - 1]);
    }
    sequence = following;
  }
  leave_parts(p, gradients, blockIdx.x, channel, d_w, d_bias);
}

template <class T>
dim3 steps_grid(const Convolution<T>& p, std::size_t blocks) {
  return dim3(static_cast<unsigned>(blocks), static_cast<unsigned>((p.inner + threads - 1) / threads));
}

}  // namespace

template <class T>
void convolution_forward(const Convolution<T>& problem, T* v, BlockStates<T> final_state,
                         cudaStream_t stream) {
  forward_kernel<<<blocks_of(problem, forward_steps), threads, 0, stream>>>(problem, v, final_state);
}

std::size_t convolution_parts(std::size_t batch, std::size_t time) {
  return batch * ((time + backward_steps - 1) / backward_steps);
}

template <class T>
void convolution_backward(const Convolution<T>& problem, const ConvolutionGradients<T>& gradients,
                          cudaStream_t stream) {
  backward_kernel<<<blocks_of(problem, backward_steps), threads, 0, stream>>>(problem, gradients);
}

std::size_t step_parts(std::size_t batch) { return std::min<std::size_t>(batch, most_blocks); }

template <class T>
void convolution_steps_forward(const Convolution<T>& problem, T* v, BlockStates<T> states,
                               cudaStream_t stream) {
  const std::size_t blocks = std::min<std::size_t>(problem.batch, 4 * most_blocks);  // which leave no sums
  forward_steps_kernel<<<steps_grid(problem, blocks), threads, 0, stream>>>(problem, v, states);
}

template <class T>
void convolution_steps_backward(const Convolution<T>& problem, const ConvolutionGradients<T>& gradients,
                                cudaStream_t stream) {
  const std::size_t blocks = step_parts(static_cast<std::size_t>(problem.batch));
  const auto kernel = problem.time == 1 ? backward_single_kernel<T> : backward_steps_kernel<T>;
  kernel<<<steps_grid(problem, blocks), threads, 0, stream>>>(problem, gradients);
}

#define MAC_SCALAR(T)                                                                                  \
  template void convolution_forward<T>(const Convolution<T>&, T*, BlockStates<T>, cudaStream_t);       \
  template void convolution_backward<T>(const Convolution<T>&, const ConvolutionGradients<T>&,         \
                                        cudaStream_t);                                                 \
  template void convolution_steps_forward<T>(const Convolution<T>&, T*, BlockStates<T>, cudaStream_t); \
  template void convolution_steps_backward<T>(const Convolution<T>&, const ConvolutionGradients<T>&,   \
                                              cudaStream_t);
MAC_SCALAR(float)
MAC_SCALAR(double)
#undef MAC_SCALAR

}  // namespace mac::selective
