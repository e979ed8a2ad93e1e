// What acts on each row (a time step of a sequence) alone, beside the products: norms, activations, biases; and sums
// over rows. Matrices are (rows, channels), row-major, of float or double. Sums have an order that depends on the sizes
// alone.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <span>

namespace mac::cuda {

inline constexpr int widest_norm = 2048;  // channels of a layer norm: a warp holds a row in registers

/// to[i] = Σ_part parts[part · stride + i], in the order of the parts, for i below count.
template <class T>
struct PartSum {
  T* to;
  const T* parts;
  std::size_t part_count, stride, count;
};
/// None of them may need another.
template <class T>
void make_sums(std::span<const PartSum<T>> sums, cudaStream_t stream);

inline constexpr std::size_t most_row_parts = 528, rows_of_block = 8;  // a block takes so many rows at once
/// Parts of sums over so many rows: of sum_rows, and of norm_backward.
inline std::size_t row_parts(std::size_t rows) {
  const std::size_t most = std::clamp<std::size_t>(rows / 64, 1, most_row_parts),
                    run = (rows + most - 1) / most;
  return (rows + run - 1) / run;
}
inline std::size_t norm_parts(std::size_t rows) {
  return std::clamp<std::size_t>(rows / rows_of_block, 1, most_row_parts);
}

/// parts (row_parts(rows), channels) of Σ_row from (row, channels), rows `stride` numbers apart.
template <class T>
void sum_rows(T* parts, const T* from, std::size_t rows, int channels, std::size_t stride,
              cudaStream_t stream);

/// y = x + bias, in place or not.
template <class T>
void add_bias(T* y, const T* x, const T* bias, std::size_t rows, int channels, cudaStream_t stream);

/// activated = SiLU(x + bias), and x becomes x + bias.
template <class T>
void bias_silu_forward(T* activated, T* x, const T* bias, std::size_t rows, int channels,
                       cudaStream_t stream);
/// d becomes d · SiLU'(x)
template <class T>
void silu_backward(T* d, const T* x, std::size_t count, cudaStream_t stream);

/// h' = h + add (or h, if add is null), y = LayerNorm(h'); h' may be h.
template <class T>
void add_norm_forward(T* y, T* h_after, const T* h, const T* add, const T* weight, const T* bias,
                      std::size_t rows, int d, cudaStream_t stream);
/// d_h (+)= gradient of h; parts (norm_parts(rows), 2 d) of those of weight and bias.
template <class T>
void norm_backward(T* d_h, bool add, T* parts, const T* d_y, const T* h, const T* weight, std::size_t rows,
                   int d, cudaStream_t stream);

/// A run of numbers in the network's parameters, and its place where every tensor begins at a multiple of 128 bytes.
struct TensorPlace {
  std::size_t at, aligned_at, count;
};
/// Between a model's parameters and an array with aligned tensors.
template <class T>
void spread_tensors(T* to, const T* parameters, const TensorPlace* places, std::size_t count,
                    cudaStream_t stream);
/// parameters (+)= from
template <class T>
void gather_tensors(T* parameters, const T* from, const TensorPlace* places, std::size_t count, bool add,
                    cudaStream_t stream);

}  // namespace mac::cuda
