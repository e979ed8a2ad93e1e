#include "network/cuda/general/own_products.hpp"

namespace mac::cuda {

namespace {

// A block computes a tile of c, in steps of the depth; a thread rows and columns of it that are `across` and `down` apart.
constexpr int tile_rows = 128, tile_columns = 64, tile_depth = 16, threads = 256, own_rows = 8,
              own_columns = 4;

/// A tile (depth, LENGTH) of a matrix on its way through registers to shared memory. Neighbouring threads read
/// neighbouring numbers: along the depth if DEEP, else along the length.
template <int LENGTH, bool DEEP>
struct Tile {
  static constexpr int stride = LENGTH + 4, numbers = LENGTH * tile_depth / threads;
  float values[numbers];

  static __device__ int place(int i) { return static_cast<int>(threadIdx.x) + i * threads; }
  static __device__ int depth(int i) { return DEEP ? place(i) % tile_depth : place(i) / LENGTH; }
  static __device__ int along(int i) { return DEEP ? place(i) / tile_depth : place(i) % LENGTH; }

  __device__ void load(const float* from, std::size_t from_stride, std::size_t first, std::size_t length,
                       std::size_t first_depth, std::size_t all_depth) {
#pragma unroll
    for (int i = 0; i < numbers; ++i) {
      const std::size_t k = first_depth + depth(i), j = first + along(i);
      values[i] = k < all_depth && j < length ? from[DEEP ? j * from_stride + k : k * from_stride + j] : 0;
    }
  }
  __device__ void store(float* shared) const {
#pragma unroll
    for (int i = 0; i < numbers; ++i) shared[depth(i) * stride + along(i)] = values[i];
  }
};

template <bool A_TRANSPOSED, bool B_TRANSPOSED>
__global__ void __launch_bounds__(threads) product_kernel(OwnProduct p) {
  using Rows = Tile<tile_rows, !A_TRANSPOSED>;
  using Columns = Tile<tile_columns, B_TRANSPOSED>;
  __shared__ __align__(16) float a[tile_depth * Rows::stride], b[tile_depth * Columns::stride];
  const float *const of_a = p.a + blockIdx.z * p.a_next, *const of_b = p.b + blockIdx.z * p.b_next;
  float* const c = p.c + blockIdx.z * p.c_next;
  const std::size_t first_row = static_cast<std::size_t>(blockIdx.x) * tile_rows,
                    first_column = static_cast<std::size_t>(blockIdx.y) * tile_columns;
  const int row = static_cast<int>(threadIdx.x) / 16 * own_rows,
            column = static_cast<int>(threadIdx.x) % 16 * own_columns;
  float sums[own_rows][own_columns] = {};
  Rows next_a;
  Columns next_b;
  const auto load = [&](std::size_t depth) {
    next_a.load(of_a, p.a_stride, first_row, p.rows, depth, p.depth);
    next_b.load(of_b, p.b_stride, first_column, p.columns, depth, p.depth);
  };
  load(0);
  for (std::size_t depth = 0; depth < p.depth; depth += tile_depth) {
    __syncthreads();
    next_a.store(a), next_b.store(b);
    __syncthreads();
    if (depth + tile_depth < p.depth) load(depth + tile_depth);
#pragma unroll
    for (int k = 0; k < tile_depth; ++k) {
      const float4 low = *reinterpret_cast<const float4*>(a + k * Rows::stride + row),
                   high = *reinterpret_cast<const float4*>(a + k * Rows::stride + row + 4),
                   right = *reinterpret_cast<const float4*>(b + k * Columns::stride + column);
      const float left[own_rows] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w},
                  factors[own_columns] = {right.x, right.y, right.z, right.w};
#pragma unroll
      for (int i = 0; i < own_rows; ++i)
#pragma unroll
        for (int j = 0; j < own_columns; ++j) sums[i][j] = fmaf(left[i], factors[j], sums[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < own_rows; ++i)
#pragma unroll
    for (int j = 0; j < own_columns; ++j) {
      const std::size_t at_row = first_row + row + i, at_column = first_column + column + j;
      if (at_row >= p.rows || at_column >= p.columns) continue;
      float& to = c[at_row * p.c_stride + at_column];
      to = p.add ? to + sums[i][j] : sums[i][j];
    }
}

}  // namespace

void launch_own_product(const OwnProduct& p, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((p.rows + tile_rows - 1) / tile_rows),
                  static_cast<unsigned>((p.columns + tile_columns - 1) / tile_columns),
                  static_cast<unsigned>(p.count));
  if (p.a_transposed)
    p.b_transposed ? product_kernel<true, true><<<grid, threads, 0, stream>>>(p)
                   : product_kernel<true, false><<<grid, threads, 0, stream>>>(p);
  else
    p.b_transposed ? product_kernel<false, true><<<grid, threads, 0, stream>>>(p)
                   : product_kernel<false, false><<<grid, threads, 0, stream>>>(p);
}

}  // namespace mac::cuda
