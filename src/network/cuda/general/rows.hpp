// What acts on each row (a time step of a sequence) alone, beside the products: norms, activations, biases; and sums
// over rows. Matrices are (rows, channels), row-major. Sums have an order that depends on the sizes alone.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace mac::cuda {

inline constexpr int widest_norm = 2048;       // channels of a layer norm: a warp holds a row in registers
inline constexpr std::size_t row_parts = 528;  // parts of the rows in sums over them, at most

/// Numbers of the scratch of sums over rows of so many channels.
constexpr std::size_t sum_scratch(std::size_t channels) { return row_parts * channels; }

/// to[i] = Σ_part parts[part · stride + i], in the order of the parts.
void sum_parts(float* to, const float* parts, std::size_t part_count, std::size_t stride, std::size_t count,
               cudaStream_t stream);

/// to (channels) = Σ_row from (row, channels), rows `stride` numbers apart.
void sum_rows(float* to, const float* from, std::size_t rows, int channels, std::size_t stride,
              float* scratch, cudaStream_t stream);

/// y = x + bias, in place or not.
void add_bias(float* y, const float* x, const float* bias, std::size_t rows, int channels,
              cudaStream_t stream);

/// activated = SiLU(x + bias), and x becomes x + bias.
void bias_silu_forward(float* activated, float* x, const float* bias, std::size_t rows, int channels,
                       cudaStream_t stream);
/// d becomes d · SiLU'(x)
void silu_backward(float* d, const float* x, std::size_t count, cudaStream_t stream);

/// h' = h + add (or h, if add is null), y = LayerNorm(h'); h' may be h.
void add_norm_forward(float* y, float* h_after, const float* h, const float* add, const float* weight,
                      const float* bias, std::size_t rows, int d, cudaStream_t stream);
/// d_h (+)= gradient of h; d_weight and d_bias are overwritten. The scratch is that of 2 d channels.
void norm_backward(float* d_h, bool add, float* d_weight, float* d_bias, const float* d_y, const float* h,
                   const float* weight, std::size_t rows, int d, float* scratch, cudaStream_t stream);

/// A run of numbers in the network's parameters, and its place where every tensor begins at a multiple of 128 bytes.
struct TensorPlace {
  std::size_t at, aligned_at, count;
};
/// Between a model's parameters and an array with aligned tensors.
void spread_tensors(float* to, const float* parameters, const TensorPlace* places, std::size_t count,
                    cudaStream_t stream);
/// parameters (+)= from
void gather_tensors(float* parameters, const float* from, const TensorPlace* places, std::size_t count,
                    bool add, cudaStream_t stream);

}  // namespace mac::cuda
