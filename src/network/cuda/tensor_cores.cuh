// Products of float32 matrices on the tensor cores, as three products of their TF32 parts.
//
// x = high + low, high the leading 11 bits of x's significand and low the rest, of which the tensor cores see
// 11 bits again. high·high + high·low + low·high then lacks 2⁻²¹ of a product at most.
#pragma once

#include "network/cuda/columns.cuh"

namespace mac::cuda {

struct SplitFloat {
  unsigned high, low;

  __device__ explicit SplitFloat(float x) {
    high = __float_as_uint(x) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high));
  }
};

/// A 16 × 8 tile of A, a row for each group of four lanes: rows lane/4 and lane/4 + 8, columns lane%4 and
/// lane%4 + 4.
struct TileA {
  unsigned high[4], low[4];

  template <class At>
  __device__ explicit TileA(At at) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const SplitFloat x(at(g + i % 2 * 8, t + i / 2 * 4));
      high[i] = x.high, low[i] = x.low;
    }
  }
  /// The lane's four numbers in that order, as load_tiles leaves them.
  __device__ explicit TileA(float4 values) {
    const float x[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const SplitFloat split(x[i]);
      high[i] = split.high, low[i] = split.low;
    }
  }
};

/// An 8 × 8 tile of B: rows lane%4 and lane%4 + 4 of column lane/4.
struct TileB {
  unsigned high[2], low[2];

  template <class At>
  __device__ explicit TileB(At at) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const SplitFloat x(at(t + i * 4, g));
      high[i] = x.high, low[i] = x.low;
    }
  }
};

/// A 16 × 8 tile of the product: rows lane/4 (+ 8 for the second half), columns 2 (lane%4) and the next.
struct TileC {
  float at[4] = {};

  __device__ void add_product(const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(at[0]), "+f"(at[1]), "+f"(at[2]), "+f"(at[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  __device__ void add_product(const TileA& a, const TileB& b) {
    add_product(a.low, b.high);
    add_product(a.high, b.low);
    add_product(a.high, b.high);
  }
  /// f(row, column, value) for the lane's four numbers.
  template <class F>
  __device__ void for_each(F f) const {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) f(g + i / 2 * 8, 2 * t + i % 2, at[i]);
  }
};

__host__ __device__ constexpr int tiles_of(int n, int size) { return (n + size - 1) / size; }

/// Floats that load_tiles fills.
__host__ __device__ constexpr int tile_floats(int n_out, int n_in) {
  return tiles_of(n_out, 16) * tiles_of(n_in, 8) * 128;
}

/// weight(o, k) in tiles of 16 × 8, each in the order in which a warp reads it; zeros beyond n_out and n_in.
template <class Weight>
__device__ void load_tiles(float* to, int n_out, int n_in, Weight weight) {
  const int k_tiles = tiles_of(n_in, 8);
  for (int i = threadIdx.x; i < tile_floats(n_out, n_in); i += blockDim.x) {
    const int part = i % 4, lane = i / 4 % 32, tile = i / 128;
    const int o = tile / k_tiles * 16 + lane / 4 + part % 2 * 8,
              k = tile % k_tiles * 8 + lane % 4 + part / 2 * 4;
    to[i] = o < n_out && k < n_in ? weight(o, k) : 0;
  }
}

/// A warp's part of a dense layer: finish(o, column, Σ_k weight[o][k] in_k) for the 16 outputs of a tile and
/// 8 WIDTH columns; `weight` as load_tiles leaves it.
template <int WIDTH, class Columns, class Finish>
__device__ void multiply_tiles(const float* weight, int out_tile, int n_in, const float* in, int first_column,
                               Columns columns, Finish finish) {
  const int k_tiles = tiles_of(n_in, 8);
  const float* const tiles = weight + out_tile * k_tiles * 128 + threadIdx.x % 32 * 4;
  TileC sums[WIDTH];
#pragma unroll
  for (int k = 0; k < k_tiles; ++k) {
    const TileA left(quad_at(tiles + 128 * k));
#pragma unroll
    for (int j = 0; j < WIDTH; ++j)
      sums[j].add_product(left, TileB([&](int i, int c) {
                            return in[min(8 * k + i, n_in - 1) * columns.stride + first_column + 8 * j + c];
                          }));
  }
#pragma unroll
  for (int j = 0; j < WIDTH; ++j)
    sums[j].for_each([&](int o, int c, float value) {
      finish(16 * out_tile + o, first_column + 8 * j + c, value);
    });
}

/// A warp's part of a weight gradient: finish(m, n, Σ_columns a_m · b_n) for the 16 rows of a tile of a and
/// all n < n_count; b(n, column). The columns are a multiple of eight.
template <class Columns, class RowB, class Finish>
__device__ void outer_product_rows(const float* a, int tile, int m_count, int n_count, Columns columns,
                                   RowB b, Finish finish) {
  constexpr int k_tiles = Columns::quads / 2;
  static_assert(4 * Columns::quads % 8 == 0);
  const int first_m = 16 * tile;
  const auto left_at = [&](int k) {
    return TileA(
        [&](int m, int c) { return a[min(first_m + m, m_count - 1) * columns.stride + 8 * k + c]; });
  };
  for (int first_n = 0; first_n < n_count; first_n += 32) {
    TileC sums[4];
#pragma unroll
    for (int k = 0; k < k_tiles; ++k) {
      const TileA left = left_at(k);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (first_n + 8 * j < n_count)
          sums[j].add_product(left, TileB([&](int c, int n) {
                                return b(min(first_n + 8 * j + n, n_count - 1), 8 * k + c);
                              }));
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      sums[j].for_each([&](int m, int n, float value) {
        if (first_m + m < m_count && first_n + 8 * j + n < n_count)
          finish(first_m + m, first_n + 8 * j + n, value);
      });
  }
}

}  // namespace mac::cuda
