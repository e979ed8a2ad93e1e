#include <algorithm>
#include <type_traits>

#include "network/cuda/general/activations.cuh"
#include "network/cuda/general/rows.hpp"

namespace mac::cuda {

namespace {

constexpr int threads = 256, warps = threads / 32;
static_assert(warps == rows_of_block);
constexpr std::size_t most_blocks = 8 * 132 * 8;  // enough for every GPU of today; more work is looped over

unsigned blocks_for(std::size_t count) {
  return static_cast<unsigned>(std::clamp<std::size_t>((count + threads - 1) / threads, 1, most_blocks));
}

/// f(i) for i below count, by all threads of a grid.
template <class F>
__device__ void for_each(std::size_t count, F f) {
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x)
    f(i);
}

constexpr int slices = 32;        // of the parts, which threads of a block share out
constexpr int sums_at_once = 64;  // of a launch: they travel as its argument

template <class T>
struct SumsOfLaunch {
  PartSum<T> sums[sums_at_once];
  unsigned ends[sums_at_once];  // the block after a sum's last one
};

template <class T>
__global__ void sum_kernel(const __grid_constant__ SumsOfLaunch<T> launch) {
  __shared__ T of_slice[slices][32];
  int which = 0;
  while (blockIdx.x >= launch.ends[which]) ++which;
  const PartSum<T>& sum = launch.sums[which];
  const unsigned block = blockIdx.x - (which > 0 ? launch.ends[which - 1] : 0);
  const std::size_t i = static_cast<std::size_t>(block) * 32 + threadIdx.x;
  T total = 0;
  if (i < sum.count)
    for (std::size_t part = threadIdx.y; part < sum.part_count; part += slices)
      total += sum.parts[part * sum.stride + i];
  of_slice[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y > 0 || i >= sum.count) return;
  T all = 0;
  for (const auto& slice : of_slice) all += slice[threadIdx.x];
  sum.to[i] = all;
}

/// parts (gridDim.y, channels): blockIdx.y has the rows from blockIdx.y · run on; 32 channels a block.
template <class T>
__global__ void sum_rows_kernel(T* parts, const T* from, std::size_t rows, int channels, std::size_t stride,
                                std::size_t run) {
  __shared__ T of_warp[warps][32];
  const int channel = static_cast<int>(blockIdx.x * 32 + threadIdx.x);
  const std::size_t first = blockIdx.y * run, end = first + run < rows ? first + run : rows;
  T total = 0;
  if (channel < channels)
    for (std::size_t row = first + threadIdx.y; row < end; row += warps)
      total += from[row * stride + channel];
  of_warp[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y > 0 || channel >= channels) return;
  T sum = 0;
  for (const auto& part : of_warp) sum += part[threadIdx.x];
  parts[static_cast<std::size_t>(blockIdx.y) * channels + channel] = sum;
}

template <class T>
__global__ void add_bias_kernel(T* y, const T* x, const T* bias, std::size_t count, int channels) {
  for_each(count, [&](std::size_t i) { y[i] = x[i] + bias[i % channels]; });
}

template <class T>
__global__ void bias_silu_kernel(T* activated, T* x, const T* bias, std::size_t count, int channels) {
  for_each(count, [&](std::size_t i) {
    const T value = x[i] + bias[i % channels];
    x[i] = value;
    activated[i] = silu(value);
  });
}

template <class T>
__global__ void silu_backward_kernel(T* d, const T* x, std::size_t count) {
  for_each(count, [&](std::size_t i) { d[i] *= silu_slope(x[i], sigmoid(x[i])); });
}

template <class T>
__device__ T warp_sum(T value) {
  for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(~0u, value, mask);
  return value;
}

/// A warp's row: channel lane + 32 k is value k.
template <class T, int N>
struct Row {
  T values[N];

  template <class F>
  __device__ void for_each(int d, F f) {
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (const int i = static_cast<int>(threadIdx.x % 32) + 32 * k; i < d) f(i, values[k]);
  }
  __device__ T mean(int d) {
    T sum = 0;
    for_each(d, [&](int, T value) { sum += value; });
    return warp_sum(sum) / static_cast<T>(d);
  }
  /// Subtracts the mean; returns 1/√(variance + ε).
  __device__ T centre(int d) {
    const T mu = mean(d);
    T squares = 0;
    for_each(d, [&](int, T& value) { value -= mu, squares += value * value; });
    return rsqrt(warp_sum(squares) / static_cast<T>(d) + T(1e-5));
  }
};

/// f(row) for the rows of a warp.
template <class F>
__device__ void for_each_row(std::size_t rows, F f) {
  for (std::size_t row = static_cast<std::size_t>(blockIdx.x) * warps + threadIdx.x / 32; row < rows;
       row += static_cast<std::size_t>(gridDim.x) * warps)
    f(row);
}

template <class T, int N>
__global__ void __launch_bounds__(threads)
    add_norm_forward_kernel(T* y, T* h_after, const T* h, const T* add, const T* weight, const T* bias,
                            std::size_t rows, int d) {
  for_each_row(rows, [&](std::size_t row) {
    Row<T, N> x;
    x.for_each(d, [&](int i, T& value) {
      value = h[row * d + i];
      if (!add) return;
      value += add[row * d + i];
      h_after[row * d + i] = value;
    });
    const T scale = x.centre(d);
    x.for_each(d, [&](int i, T value) { y[row * d + i] = weight[i] * value * scale + bias[i]; });
  });
}

/// With n = (h − μ)·scale and g = d_y·w:  d_h = scale (g − mean(g) − n mean(g n)). parts (block, 2 d): d_weight, d_bias.
template <class T, int N>
__global__ void __launch_bounds__(threads)
    norm_backward_kernel(T* d_h, bool add, T* parts, const T* d_y, const T* h, const T* weight,
                         std::size_t rows, int d) {
  __shared__ T of_warp[warps][32];
  Row<T, N> d_weight{}, d_bias{};
  for_each_row(rows, [&](std::size_t row) {
    Row<T, N> n, g;
    n.for_each(d, [&](int i, T& value) { value = h[row * d + i]; });
    const T scale = n.centre(d);
    T product = 0;
    g.for_each(d, [&](int i, T& value) { value = d_y[row * d + i]; });
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (const int i = static_cast<int>(threadIdx.x % 32) + 32 * k; i < d) {
        n.values[k] *= scale;
        d_weight.values[k] += g.values[k] * n.values[k];
        d_bias.values[k] += g.values[k];
        g.values[k] *= weight[i];
        product += g.values[k] * n.values[k];
      }
    const T mean = g.mean(d), mean_product = warp_sum(product) / static_cast<T>(d);
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (const int i = static_cast<int>(threadIdx.x % 32) + 32 * k; i < d) {
        const T value = scale * (g.values[k] - mean - n.values[k] * mean_product);
        d_h[row * d + i] = add ? d_h[row * d + i] + value : value;
      }
  });
  T* const to = parts + static_cast<std::size_t>(blockIdx.x) * 2 * d;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const auto store = [&](T value, int place, bool exists) {
    __syncthreads();
    of_warp[warp][lane] = value;
    __syncthreads();
    if (warp > 0 || !exists) return;
    T sum = 0;
    for (const auto& part : of_warp) sum += part[lane];
    to[place] = sum;
  };
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const int i = lane + 32 * k;
    store(d_weight.values[k], i, i < d);
    store(d_bias.values[k], d + i, i < d);
  }
}

/// f(std::integral_constant<int, N>) with room for d channels in a warp.
template <class F>
void with_row(int d, F f) {
  const int values = (d + 31) / 32;
  if (values <= 1) return f(std::integral_constant<int, 1>());
  if (values <= 2) return f(std::integral_constant<int, 2>());
  if (values <= 4) return f(std::integral_constant<int, 4>());
  if (values <= 8) return f(std::integral_constant<int, 8>());
  if (values <= 16) return f(std::integral_constant<int, 16>());
  f(std::integral_constant<int, widest_norm / 32>());
}

template <class T>
__global__ void spread_kernel(T* to, const T* parameters, const TensorPlace* places) {
  const TensorPlace place = places[blockIdx.y];
  for_each(place.count, [&](std::size_t i) { to[place.aligned_at + i] = parameters[place.at + i]; });
}

template <class T>
__global__ void gather_kernel(T* parameters, const T* from, const TensorPlace* places, bool add) {
  const TensorPlace place = places[blockIdx.y];
  for_each(place.count, [&](std::size_t i) {
    T& to = parameters[place.at + i];
    to = add ? to + from[place.aligned_at + i] : from[place.aligned_at + i];
  });
}

constexpr unsigned blocks_of_tensor = 32;

}  // namespace

template <class T>
void make_sums(std::span<const PartSum<T>> sums, cudaStream_t stream) {
  while (!sums.empty()) {
    const std::size_t count = std::min<std::size_t>(sums_at_once, sums.size());
    SumsOfLaunch<T> launch{};
    unsigned blocks = 0;
    for (std::size_t i = 0; i < count; ++i) {
      launch.sums[i] = sums[i];
      blocks += static_cast<unsigned>((sums[i].count + 31) / 32);
      launch.ends[i] = blocks;
    }
    sum_kernel<<<blocks, dim3(32, slices), 0, stream>>>(launch);
    sums = sums.subspan(count);
  }
}

template <class T>
void sum_rows(T* parts, const T* from, std::size_t rows, int channels, std::size_t stride,
              cudaStream_t stream) {
  const std::size_t count = row_parts(rows), run = (rows + count - 1) / count;
  const dim3 grid(static_cast<unsigned>((channels + 31) / 32), static_cast<unsigned>(count));
  sum_rows_kernel<<<grid, dim3(32, warps), 0, stream>>>(parts, from, rows, channels, stride, run);
}

template <class T>
void add_bias(T* y, const T* x, const T* bias, std::size_t rows, int channels, cudaStream_t stream) {
  const std::size_t count = rows * static_cast<std::size_t>(channels);
  add_bias_kernel<<<blocks_for(count), threads, 0, stream>>>(y, x, bias, count, channels);
}

template <class T>
void bias_silu_forward(T* activated, T* x, const T* bias, std::size_t rows, int channels,
                       cudaStream_t stream) {
  const std::size_t count = rows * static_cast<std::size_t>(channels);
  bias_silu_kernel<<<blocks_for(count), threads, 0, stream>>>(activated, x, bias, count, channels);
}

template <class T>
void silu_backward(T* d, const T* x, std::size_t count, cudaStream_t stream) {
  silu_backward_kernel<<<blocks_for(count), threads, 0, stream>>>(d, x, count);
}

template <class T>
void add_norm_forward(T* y, T* h_after, const T* h, const T* add, const T* weight, const T* bias,
                      std::size_t rows, int d, cudaStream_t stream) {
  const unsigned blocks = blocks_for(rows * 32);
  with_row(d, [&](auto n) {
    add_norm_forward_kernel<T, n><<<blocks, threads, 0, stream>>>(y, h_after, h, add, weight, bias, rows, d);
  });
}

template <class T>
void norm_backward(T* d_h, bool add, T* parts, const T* d_y, const T* h, const T* weight, std::size_t rows,
                   int d, cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>(norm_parts(rows));
  with_row(d, [&](auto n) {
    norm_backward_kernel<T, n><<<blocks, threads, 0, stream>>>(d_h, add, parts, d_y, h, weight, rows, d);
  });
}

template <class T>
void spread_tensors(T* to, const T* parameters, const TensorPlace* places, std::size_t count,
                    cudaStream_t stream) {
  spread_kernel<<<dim3(blocks_of_tensor, static_cast<unsigned>(count)), threads, 0, stream>>>(to, parameters,
                                                                                              places);
}

template <class T>
void gather_tensors(T* parameters, const T* from, const TensorPlace* places, std::size_t count, bool add,
                    cudaStream_t stream) {
  gather_kernel<<<dim3(blocks_of_tensor, static_cast<unsigned>(count)), threads, 0, stream>>>(
      parameters, from, places, add);
}

#define MAC_SCALAR(T)                                                                                 \
  template void make_sums<T>(std::span<const PartSum<T>>, cudaStream_t);                              \
  template void sum_rows<T>(T*, const T*, std::size_t, int, std::size_t, cudaStream_t);               \
  template void add_bias<T>(T*, const T*, const T*, std::size_t, int, cudaStream_t);                  \
  template void bias_silu_forward<T>(T*, T*, const T*, std::size_t, int, cudaStream_t);               \
  template void silu_backward<T>(T*, const T*, std::size_t, cudaStream_t);                            \
  template void add_norm_forward<T>(T*, T*, const T*, const T*, const T*, const T*, std::size_t, int, \
                                    cudaStream_t);                                                    \
  template void norm_backward<T>(T*, bool, T*, const T*, const T*, const T*, std::size_t, int,        \
                                 cudaStream_t);                                                       \
  template void spread_tensors<T>(T*, const T*, const TensorPlace*, std::size_t, cudaStream_t);       \
  template void gather_tensors<T>(T*, const T*, const TensorPlace*, std::size_t, bool, cudaStream_t);
MAC_SCALAR(float)
MAC_SCALAR(double)
#undef MAC_SCALAR

}  // namespace mac::cuda
