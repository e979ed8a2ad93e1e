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

/// A warp's part of a weight gradient: finish(m, n, Σ_columns a_m · b_n) for m in a tile of 16 rows of a and
/// all 8 N_TILES rows of b; rows beyond the last repeat it. The columns are a multiple of eight.
template <int N_TILES, class Columns, class Finish>
__device__ void outer_product_rows(const float* a, int first_m, int m_count, const float* b, int n_count,
                                   Columns columns, Finish finish) {
  static_assert(4 * Columns::quads % 8 == 0);
  TileC sums[N_TILES];
#pragma unroll 3
  for (int k = 0; k < 4 * columns.quads; k += 8) {
    const TileA left([&](int m, int c) { return a[min(first_m + m, m_count - 1) * columns.stride + k + c]; });
#pragma unroll
    for (int j = 0; j < N_TILES; ++j)
      sums[j].add_product(
          left, TileB([&](int c, int n) { return b[min(8 * j + n, n_count - 1) * columns.stride + k + c]; }));
  }
#pragma unroll
  for (int j = 0; j < N_TILES; ++j)
    sums[j].for_each([&](int m, int n, float value) {
      if (first_m + m < m_count && 8 * j + n < n_count) finish(first_m + m, 8 * j + n, value);
    });
}

/// out_o = Σ_k weight[k][o] · in_k for every column, as multiply(): finish(o, column, sum). A warp takes 16
/// outputs and about a third of the columns.
template <int N_IN, int N_OUT, class Columns, class Finish>
__device__ void multiply_tiles(const float* weight, int ld, const float* in, Columns columns, Finish finish) {
  constexpr int column_tiles = tiles_of(4 * Columns::quads, 8), width = tiles_of(column_tiles, 3),
                parts = tiles_of(column_tiles, width), units = tiles_of(N_OUT, 16) * parts;
  for (int unit = threadIdx.x / 32; unit < units; unit += blockDim.x / 32) {
    const int first_o = unit / parts * 16, first_column = unit % parts * width * 8;
    TileC sums[width];
#pragma unroll
    for (int k = 0; k < N_IN; k += 8) {
      const TileA left([&](int o, int i) {
        return N_IN % 8 == 0 || k + i < N_IN ? weight[(k + i) * ld + min(first_o + o, N_OUT - 1)] : 0.0f;
      });
#pragma unroll
      for (int j = 0; j < width; ++j)
        sums[j].add_product(left, TileB([&](int i, int c) {
                              return in[min(k + i, N_IN - 1) * columns.stride +
                                        min(first_column + 8 * j + c, 4 * columns.quads - 1)];
                            }));
    }
#pragma unroll
    for (int j = 0; j < width; ++j)
      sums[j].for_each([&](int o, int c, float value) {
        if (first_o + o < N_OUT && first_column + 8 * j + c < 4 * columns.quads)
          finish(first_o + o, first_column + 8 * j + c, value);
      });
  }
}

}  // namespace mac::cuda
