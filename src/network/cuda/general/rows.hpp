// What acts on each row (a time step of a sequence) alone, beside the products: norms, activations, biases; and sums
// over rows. Matrices are (rows, channels), row-major, of float or double. Sums have an order that depends on the sizes
// alone.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace mac::cuda {

inline constexpr int widest_norm = 2048;       // channels of a layer norm: a warp holds a row in registers
inline constexpr std::size_t row_parts = 528;  // parts of the rows in sums over them, at most

/// Numbers of the scratch of sums over rows of so many channels.
constexpr std::size_t sum_scratch(std::size_t channels) { return row_parts * channels; }

/// to[i] = Σ_part parts[part · stride + i], in the order of the parts.
template <class T>
void sum_parts(T* to, const T* parts, std::size_t part_count, std::size_t stride, std::size_t count,
               cudaStream_t stream);

/// to (channels) = Σ_row from (row, channels), rows `stride` numbers apart.
template <class T>
void sum_rows(T* to, const T* from, std::size_t rows, int channels, std::size_t stride, T* scratch,
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
/// d_h (+)= gradient of h; d_weight and d_bias are overwritten. The scratch is that of 2 d channels.
template <class T>
void norm_backward(T* d_h, bool add, T* d_weight, T* d_bias, const T* d_y, const T* h, const T* weight,
                   std::size_t rows, int d, T* scratch, cudaStream_t stream);

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
