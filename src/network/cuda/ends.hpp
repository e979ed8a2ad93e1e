// The two ends of the network, before and after its blocks, and sums over parameter gradients.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace mac::cuda {

struct EndsProblem {
  int d_in, d_out, d_model;
  int models, batch, time, quads;
  const float* parameters;  // (model, parameter_count)
  std::size_t parameter_count;
  std::size_t input_weight, input_bias;  // offsets in the parameters
  std::size_t tail;  // offset of norm.weight; norm.bias, output_proj.0 and output_proj.2 follow

  __host__ __device__ int input_size() const { return d_model * (d_in + 1); }
  __host__ __device__ int tail_size() const {
    return 2 * d_model + d_model * (d_model + 1) + d_out * (d_model + 1);
  }
};

/// Blocks of a model in the backward passes; each leaves its own sums.
inline constexpr int end_blocks = 792;

/// Shared memory that the largest of these kernels takes.
std::size_t largest_end_bytes(const EndsProblem& problem);

/// h (sequence, quad, d_model, 4) = SiLU(input_proj x), x (sequence, time, d_in).
void launch_input_forward(const EndsProblem& problem, const float* x, float* h, cudaStream_t stream);

/// partials (model, end_blocks, input_size); d_x may be null.
void launch_input_backward(const EndsProblem& problem, const float* x, const float* d_h, float* d_x,
                           float* partials, cudaStream_t stream);

/// y (sequence, time, d_out) = output_proj.2 SiLU(output_proj.0 LayerNorm(h)).
void launch_output_forward(const EndsProblem& problem, const float* h, float* y, cudaStream_t stream);

/// partials (model, end_blocks, tail_size).
void launch_output_backward(const EndsProblem& problem, const float* h, const float* d_y, float* d_h,
                            float* partials, cudaStream_t stream);

/// gradients[model · stride + i] (+)= Σ_part partials[model][part][i], in the order of the parts.
void launch_reduce_partials(const float* partials, int models, int parts, int count, float* gradients,
                            std::size_t stride, bool add, cudaStream_t stream);

}  // namespace mac::cuda
