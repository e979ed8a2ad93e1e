// The frame of the network: what comes before and after its blocks; and sums over parameter gradients.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace mac::cuda {

inline constexpr int frame_quads = 16;    // of a tile
inline constexpr int frame_blocks = 528;  // of a model in the backward passes, at most: four a multiprocessor

struct InputOutputProblem {
  int d_in, d_out, d_model;
  int models, batch, time, quads;
  int sequence_quads;       // from a sequence to the next in h: more than `quads` only where no tile has two
  const float* parameters;  // (model, parameter_count)
  std::size_t parameter_count;
  std::size_t input_weight, input_bias;  // offsets in the parameters
  std::size_t tail;  // offset of norm.weight; norm.bias, output_proj.0 and output_proj.2 follow

  __host__ __device__ int input_size() const { return d_model * (d_in + 1); }
  __host__ __device__ int tail_size() const {
    return 2 * d_model + d_model * (d_model + 1) + d_out * (d_model + 1);
  }
  /// A tile holds a part of a sequence, or several short sequences.
  __host__ __device__ int sequences_per_tile() const { return quads < frame_quads ? frame_quads / quads : 1; }
  __host__ __device__ int tiles_per_sequence() const { return (quads + frame_quads - 1) / frame_quads; }
  __host__ __device__ int tiles() const {  // of a model
    return (batch + sequences_per_tile() - 1) / sequences_per_tile() * tiles_per_sequence();
  }
  /// Blocks of a model in the backward passes; each leaves its own sums.
  int parts() const { return tiles() < frame_blocks ? tiles() : frame_blocks; }
};

/// Shared memory that the largest of these kernels takes.
std::size_t largest_input_output_bytes(const InputOutputProblem& problem);

/// h (sequence, quad, d_model, 4) = SiLU(input_proj x), x (sequence, time, d_in).
void launch_input_forward(const InputOutputProblem& problem, const float* x, float* h, cudaStream_t stream);

/// partials (model, parts(), input_size); d_x may be null.
void launch_input_backward(const InputOutputProblem& problem, const float* x, const float* d_h, float* d_x,
                           float* partials, cudaStream_t stream);

/// y (sequence, time, d_out) = output_proj.2 SiLU(output_proj.0 LayerNorm(h)).
void launch_output_forward(const InputOutputProblem& problem, const float* h, float* y, cudaStream_t stream);

/// partials (model, parts(), tail_size).
void launch_output_backward(const InputOutputProblem& problem, const float* h, const float* d_y, float* d_h,
                            float* partials, cudaStream_t stream);

/// gradients[model · stride + i] (+)= Σ_part partials[model][part][i], in the order of the parts.
void launch_reduce_partials(const float* partials, int models, int parts, int count, float* gradients,
                            std::size_t stride, bool add, cudaStream_t stream);

}  // namespace mac::cuda
