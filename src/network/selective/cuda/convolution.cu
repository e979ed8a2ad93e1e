#include "network/cuda/time_columns.cuh"
#include "network/selective/cuda/general.hpp"

namespace mac::selective {

namespace {

using namespace cuda;

constexpr int threads = 128, window = 3;
constexpr int forward_steps = 32, backward_steps = 64;  // of a thread

/// A channel of a run of steps [first, end) of a sequence.
struct Run {
  int channel, first, end;
  std::size_t sequence, part;  // part: number of the run among those of all sequences

  __device__ Run(const Convolution& p, int steps) {
    const int channel_blocks = (p.inner + threads - 1) / threads, runs = (p.time + steps - 1) / steps;
    part = blockIdx.x / channel_blocks;
    channel = static_cast<int>(blockIdx.x % channel_blocks * threads + threadIdx.x);
    sequence = part / runs;
    first = static_cast<int>(part % runs) * steps;
    end = min(first + steps, p.time);
  }
  /// x at time t, from −3 on, or zero before and after.
  __device__ float x(const Convolution& p, int t) const {
    if (t >= p.time || t < -window) return 0;
    if (t >= 0) return p.x[(sequence * p.time + t) * 2 * p.inner + channel];
    return p.initial ? p.initial.of(sequence)[(t + window) * p.inner + channel] : 0;
  }
};

struct Weights {
  float k[4], bias;

  __device__ Weights(const Convolution& p, int channel) : bias(p.bias[channel]) {
    for (int i = 0; i < 4; ++i) k[i] = p.weight[4 * channel + i];
  }
  /// c_t from x_{t−3}, .., x_t
  __device__ float apply(const float (&x)[4]) const {
    float sum = bias;
    for (int i = 0; i < 4; ++i) sum = fmaf(k[i], x[i], sum);
    return sum;
  }
};

__global__ void __launch_bounds__(threads)
    forward_kernel(Convolution p, float* v, BlockStates<float> final_state) {
  const Run run(p, forward_steps);
  if (run.channel >= p.inner) return;
  const Weights w(p, run.channel);
  float x[4] = {0, run.x(p, run.first - 3), run.x(p, run.first - 2), run.x(p, run.first - 1)};
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
__global__ void __launch_bounds__(threads) backward_kernel(Convolution p, ConvolutionGradients gradients) {
  const Run run(p, backward_steps);
  if (run.channel >= p.inner) return;
  const Weights w(p, run.channel);
  float d_w[4] = {}, d_bias = 0, later[3] = {};
  int t = run.end + 2;
  float x[4] = {run.x(p, t - 3), run.x(p, t - 2), run.x(p, t - 1), run.x(p, t)};
  for (const int last = run.first == 0 ? -window : run.first; t >= last; --t) {
    const std::size_t row = run.sequence * p.time + t;
    float d_c = 0;
    if (t >= 0 && t < p.time) {
      const float c = w.apply(x);
      d_c = gradients.d_v[row * p.inner + run.channel] * silu_slope(c, sigmoid(c));
    }
    if (t < run.end) {
      float d_x = fmaf(w.k[3], d_c, fmaf(w.k[2], later[0], fmaf(w.k[1], later[1], w.k[0] * later[2])));
      if (gradients.d_final && t >= p.time - window)
        d_x += gradients.d_final.of(run.sequence)[(t - (p.time - window)) * p.inner + run.channel];
      if (t >= 0) {
        gradients.d_x[row * 2 * p.inner + run.channel] = d_x;
        for (int k = 0; k < 4; ++k) d_w[k] = fmaf(d_c, x[k], d_w[k]);
        d_bias += d_c;
      } else if (gradients.d_initial) {
        gradients.d_initial.of(run.sequence)[(t + window) * p.inner + run.channel] = d_x;
      }
    }
    later[2] = later[1], later[1] = later[0], later[0] = d_c;
    x[3] = x[2], x[2] = x[1], x[1] = x[0], x[0] = run.x(p, t - 4);
  }
  float* const to = gradients.parts + run.part * 5 * p.inner;
  for (int k = 0; k < 4; ++k) to[4 * run.channel + k] = d_w[k];
  to[4 * p.inner + run.channel] = d_bias;
}

unsigned blocks_of(const Convolution& p, int steps) {
  return static_cast<unsigned>((p.inner + threads - 1) / threads) *
         static_cast<unsigned>((p.time + steps - 1) / steps) * static_cast<unsigned>(p.batch);
}

}  // namespace

void convolution_forward(const Convolution& problem, float* v, BlockStates<float> final_state,
                         cudaStream_t stream) {
  forward_kernel<<<blocks_of(problem, forward_steps), threads, 0, stream>>>(problem, v, final_state);
}

std::size_t convolution_parts(std::size_t batch, std::size_t time) {
  return batch * ((time + backward_steps - 1) / backward_steps);
}

void convolution_backward(const Convolution& problem, const ConvolutionGradients& gradients,
                          cudaStream_t stream) {
  backward_kernel<<<blocks_of(problem, backward_steps), threads, 0, stream>>>(problem, gradients);
}

}  // namespace mac::selective
