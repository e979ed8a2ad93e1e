// Products of float32 matrices on the tensor cores, as three products of their TF32 parts.
//
// x = high + low, high the leading 11 bits of x's significand and low the rest, of which the tensor cores see
// 11 bits again. high·high + high·low + low·high then lacks 2⁻²¹ of a product at most.
#pragma once

#include <type_traits>

#include "network/cuda/time_columns.cuh"

namespace mac::cuda {

/// high is x cut off: both parts err to the side of zero.
struct CutSplit {
  unsigned high, low;

  __device__ explicit CutSplit(float x) {
    high = __float_as_uint(x) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high));
  }
};

/// high is x rounded, so that what low lacks has no preferred sign: for sums that must be good to the last
/// digit.
struct RoundedSplit {
  unsigned high, low;

  __device__ explicit RoundedSplit(float x) {
    high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high));
  }
};

/// A 16 × 8 tile of A, a row for each group of four lanes: rows lane/4 and lane/4 + 8, columns lane%4 and
/// lane%4 + 4.
template <class Split>
struct TileA {
  unsigned high[4], low[4];

  template <class At>
  __device__ explicit TileA(At at) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) set(i, at(g + i % 2 * 8, t + i / 2 * 4));
  }
  /// The lane's four numbers in that order, as load_tiles leaves them.
  __device__ explicit TileA(float4 x) { set(0, x.x), set(1, x.y), set(2, x.z), set(3, x.w); }

 private:
  __device__ void set(int i, float x) {
    const Split split(x);
    high[i] = split.high, low[i] = split.low;
  }
};

/// An 8 × 8 tile of B: rows lane%4 and lane%4 + 4 of column lane/4.
template <class Split>
struct TileB {
  unsigned high[2], low[2];

  TileB() = default;
  template <class At>
  __device__ explicit TileB(At at) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Split x(at(t + i * 4, g));
      high[i] = x.high, low[i] = x.low;
    }
  }
  /// The lane's two numbers, as load_tiles<8> leaves them.
  __device__ explicit TileB(float2 x) {
    const Split first(x.x), second(x.y);
    high[0] = first.high, high[1] = second.high, low[0] = first.low, low[1] = second.low;
  }
};

/// A 16 × 8 tile of the product: rows lane/4 (+ 8 for the second half), columns 2 (lane%4) and the next.
struct TileC {
  using Split = CutSplit;
  float at[4] = {};

  __device__ void load(const float* from) {
    const float4 values = quad_at(from);
    at[0] = values.x, at[1] = values.y, at[2] = values.z, at[3] = values.w;
  }
  __device__ void store(float* to) const { quad_at(to) = {at[0], at[1], at[2], at[3]}; }
  __device__ void add_product(const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(at[0]), "+f"(at[1]), "+f"(at[2]), "+f"(at[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  template <class Split>
  __device__ void add_product(const TileA<Split>& a, const TileB<Split>& b) {
    add_product(a.low, b.high);
    add_product(a.high, b.low);
    add_product(a.high, b.high);
  }
  /// The numbers of row lane/4, or of the row eight below it.
  __device__ float2 pair(int half) const { return {at[2 * half], at[2 * half + 1]}; }
  /// f(row, column, values of that column and the next) for the lane's numbers.
  template <class F>
  __device__ void for_each_pair(F f) const {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    f(g, 2 * t, pair(0));
    f(g + 8, 2 * t, pair(1));
  }
};

/// The same, with the large products added up outside the tensor cores, which cut off instead of rounding.
struct RoundedTileC : TileC {
  using Split = RoundedSplit;
  float large[4] = {};

  __device__ void add_product(const TileA<RoundedSplit>& a, const TileB<RoundedSplit>& b) {
    TileC::add_product(a.low, b.high);
    TileC::add_product(a.high, b.low);
    TileC products;
    products.add_product(a.high, b.high);
#pragma unroll
    for (int i = 0; i < 4; ++i) large[i] += products.at[i];
  }
  __device__ float2 pair(int half) const {
    return {large[2 * half] + at[2 * half], large[2 * half + 1] + at[2 * half + 1]};
  }
};

struct FromZero {};

__host__ __device__ constexpr int tiles_of(int n, int size) { return (n + size - 1) / size; }

/// Floats that load_tiles fills.
template <int ROWS = 16>
__host__ __device__ constexpr int tile_floats(int n_out, int n_in) {
  return tiles_of(n_out, ROWS) * tiles_of(n_in, 8) * 8 * ROWS;
}

/// weight(o, k) in tiles of ROWS × 8, each in the order in which a warp reads it; zeros beyond n_out and
/// n_in. 16 rows are a TileA, 8 a TileB.
template <int ROWS = 16, class Weight>
__device__ void load_tiles(float* to, int n_out, int n_in, Weight weight) {
  constexpr int of_lane = ROWS / 4, halves = ROWS / 8;
  const int k_tiles = tiles_of(n_in, 8);
#pragma unroll 8  // so many loads at once
  for (int i = threadIdx.x; i < tile_floats<ROWS>(n_out, n_in); i += blockDim.x) {
    const int part = i % of_lane, lane = i / of_lane % 32, tile = i / (32 * of_lane);
    const int o = tile / k_tiles * ROWS + lane / 4 + part % halves * 8,
              k = tile % k_tiles * 8 + lane % 4 + part / halves * 4;
    to[i] = o < n_out && k < n_in ? weight(o, k) : 0;
  }
}

/// A warp's part of a dense layer: finish(o, first, c, Σ_k weight[o][k] in_k for columns first + c and the
/// next) for 8 WIDTH columns and the outputs of the tiles out_tile, out_tile + tile_step, .. (M of them, as
/// far as they exist); `first` is a multiple of eight that all lanes share. `weight` as load_tiles leaves it,
/// Tile is TileC or RoundedTileC. start(o, first, c) is added to the sums, and asked for before they are
/// made.
template <class Tile, int M, int WIDTH, class TimeColumns, class Finish, class Start = FromZero>
__device__ void multiply_tiles(const float* weight, int out_tile, int tile_step, int n_out, int n_in,
                               const float* in, int first_column, TimeColumns columns, Finish finish,
                               Start start = {}) {
  constexpr bool from_zero = std::is_same_v<Start, FromZero>;
  using Split = typename Tile::Split;
  const int k_tiles = tiles_of(n_in, 8), last_tile = tiles_of(n_out, 16) - 1;
  Tile sums[M][WIDTH];
  float2 starts[M][WIDTH][2];
  const auto for_each_pair = [&](auto f) {
    const int g = threadIdx.x % 32 / 4, c = threadIdx.x % 4 * 2;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int j = 0; j < WIDTH; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (const int o = 16 * (out_tile + m * tile_step) + g + 8 * half; o < n_out)
            f(o, first_column + 8 * j, c, m, j, half);
  };
  if constexpr (!from_zero)
    for_each_pair(
        [&](int o, int first, int c, int m, int j, int half) { starts[m][j][half] = start(o, first, c); });
#pragma unroll
  for (int k = 0; k < k_tiles; ++k) {
    const auto right = [&](int j) {
      return TileB<Split>([&](int i, int c) {
        return in[min(8 * k + i, n_in - 1) * columns.stride + first_column + 8 * j + c];
      });
    };
    const auto left = [&](int m) {
      const int tile = min(out_tile + m * tile_step, last_tile);
      return TileA<Split>(quad_at(weight + (tile * k_tiles + k) * 128 + threadIdx.x % 32 * 4));
    };
    if constexpr (M == 1) {
      const TileA<Split> a = left(0);
#pragma unroll
      for (int j = 0; j < WIDTH; ++j) sums[0][j].add_product(a, right(j));
    } else {
      const TileA<Split> a[2] = {left(0), left(1)};
      static_assert(M == 2);
#pragma unroll
      for (int j = 0; j < WIDTH; ++j) {
        const TileB<Split> b = right(j);
        sums[0][j].add_product(a[0], b), sums[1][j].add_product(a[1], b);
      }
    }
  }
  for_each_pair([&](int o, int first, int c, int m, int j, int half) {
    float2 sum = sums[m][j].pair(half);
    if constexpr (!from_zero) sum.x += starts[m][j][half].x, sum.y += starts[m][j][half].y;
    finish(o, first, c, sum);
  });
}

/// A dense layer spread over some warps, as above.
template <class Tile, int WIDTH, class TimeColumns, class Finish, class Start = FromZero>
__device__ void multiply_all_tiles(const float* weight, int n_out, int n_in, const float* in,
                                   TimeColumns columns, Team team, Finish finish, Start start = {}) {
  constexpr int parts = TimeColumns::quads / 2 / WIDTH;
  static_assert(8 * WIDTH * parts == 4 * TimeColumns::quads);
  const int tiles = tiles_of(n_out, 16), warps = team.threads / 32;
  const auto of_unit = [&](int unit, auto at_once) {
    constexpr int M = decltype(at_once)::value;
    multiply_tiles<Tile, M, WIDTH>(weight, unit / parts * M, 1, n_out, n_in, in, unit % parts * WIDTH * 8,
                                   columns, finish, start);
  };
  for (int unit = team.thread / 32; unit < (tiles + 1) / 2 * parts; unit += warps)
    if (tiles == 1)
      of_unit(unit, std::integral_constant<int, 1>{});
    else
      of_unit(unit, std::integral_constant<int, 2>{});
}

/// The most column tiles that fit WIDTH, if `warps` warps share them.
template <class TimeColumns>
__host__ __device__ constexpr int width_for(int warps) {
  constexpr int tiles = TimeColumns::quads / 2;
  for (int width : {4, 2})
    if (tiles % width == 0 && tiles / width >= warps) return width;
  return 1;
}

/// A warp's part of a dense layer with 16 columns as the tile's rows: finish(o, column, Σ_k in_k
/// weight[k][o]) for N tiles of 8 outputs, as far as they exist; `weight` as load_tiles<8> leaves it.
template <int N, class TimeColumns, class Finish>
__device__ void multiply_columns(const float* weight, int out_tile, int n_out, int n_in, const float* in,
                                 int first_column, TimeColumns columns, Finish finish) {
  constexpr int last_column = 4 * TimeColumns::quads - 1;
  const int k_tiles = tiles_of(n_in, 8), last_tile = tiles_of(n_out, 8) - 1;
  TileC sums[N];
#pragma unroll 4
  for (int k = 0; k < k_tiles; ++k) {
    const TileA<CutSplit> left([&](int c, int i) {
      return in[min(8 * k + i, n_in - 1) * columns.stride + min(first_column + c, last_column)];
    });
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float* const tile = weight + (min(out_tile + j, last_tile) * k_tiles + k) * 64;
      sums[j].add_product(left,
                          TileB<CutSplit>(*reinterpret_cast<const float2*>(tile + threadIdx.x % 32 * 2)));
    }
  }
#pragma unroll
  for (int j = 0; j < N; ++j)
    sums[j].for_each_pair([&](int c, int row, float2 values) {
      const int o = 8 * (out_tile + j) + row, column = first_column + c;
      if (column > last_column) return;
      if (o < n_out) finish(o, column, values.x);
      if (o + 1 < n_out) finish(o + 1, column, values.y);
    });
}

/// A warp's part of a weight gradient: tiles[j] += Σ_columns a_m · b_n for the 16 rows of a tile of a and N
/// tiles of n, as far as they exist; b(n, column). The columns are a multiple of eight.
template <int N, class TimeColumns, class RowB>
__device__ void add_outer_product(TileC (&tiles)[N], const float* a, int m_tile, int m_count, int n_tile,
                                  int n_count, TimeColumns columns, RowB b) {
  static_assert(4 * TimeColumns::quads % 8 == 0);
#pragma unroll
  for (int column = 0; column < 4 * columns.quads; column += 8) {
    const TileA<CutSplit> left(
        [&](int m, int c) { return a[min(16 * m_tile + m, m_count - 1) * columns.stride + column + c]; });
#pragma unroll
    for (int j = 0; j < N; ++j)
      if (8 * (n_tile + j) < n_count)
        tiles[j].add_product(left, TileB<CutSplit>([&](int c, int n) {
                               return b(min(8 * (n_tile + j) + n, n_count - 1), column + c);
                             }));
  }
}

inline constexpr int outer_group = 4;  // tiles of n that a warp takes at once

/// The same for the tiles of n from `first` on, a group of them, with sums in memory: (tile of m, tile of n,
/// lane, 4), tile_floats(m_count, n_count). M matrices a share the right side.
template <int M, class TimeColumns, class RowB>
__device__ void add_outer_group(float* const (&sums)[M], const float* const (&a)[M], int m_tile, int m_count,
                                int first, int n_count, TimeColumns columns, RowB b) {
  const int n_tiles = tiles_of(n_count, 8), place = m_tile * n_tiles * 128 + threadIdx.x % 32 * 4;
  TileC tiles[M][outer_group];
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int j = 0; j < outer_group; ++j)
      if (first + j < n_tiles) tiles[i][j].load(sums[i] + place + 128 * (first + j));
#pragma unroll
  for (int i = 0; i < M; ++i) add_outer_product(tiles[i], a[i], m_tile, m_count, first, n_count, columns, b);
#pragma unroll
  for (int i = 0; i < M; ++i)
#pragma unroll
    for (int j = 0; j < outer_group; ++j)
      if (first + j < n_tiles) tiles[i][j].store(sums[i] + place + 128 * (first + j));
}

/// The same for all n.
template <int M, class TimeColumns, class RowB>
__device__ void add_outer_products(float* const (&sums)[M], const float* const (&a)[M], int m_tile,
                                   int m_count, int n_count, TimeColumns columns, RowB b) {
  for (int first = 0; first < tiles_of(n_count, 8); first += outer_group)
    add_outer_group(sums, a, m_tile, m_count, first, n_count, columns, b);
}

/// f(m, n, sum) for what this lane holds of a tile of sums.
template <class F>
__device__ void for_each_sum(const TileC& tile, int m_tile, int m_count, int n_tile, int n_count, F f) {
  tile.for_each_pair([&](int row, int column, float2 values) {
    const int m = 16 * m_tile + row, n = 8 * n_tile + column;
    if (m >= m_count) return;
    if (n < n_count) f(m, n, values.x);
    if (n + 1 < n_count) f(m, n + 1, values.y);
  });
}
/// The same for all sums in memory, spread over the block.
template <class F>
__device__ void for_each_sum(const float* sums, int m_count, int n_count, F f) {
  const int n_tiles = tiles_of(n_count, 8);
  for (int i = threadIdx.x / 32; i < tiles_of(m_count, 16) * n_tiles; i += blockDim.x / 32) {
    TileC tile;
    tile.load(sums + 128 * i + threadIdx.x % 32 * 4);
    for_each_sum(tile, i / n_tiles, m_count, i % n_tiles, n_count, f);
  }
}

}  // namespace mac::cuda
