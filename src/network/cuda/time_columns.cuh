// Activations on the device, and layer norm over them.
//
// In shared memory an activation is a set of rows, one per channel; a column is one time step of the block's
// sequence. TimeColumns come in quads of four consecutive steps, so that every access is a float4. Rows
// are `stride` floats apart, an odd number of quads: consecutive rows then start in different banks.
//
// In device memory a tensor of R channels is (sequence, quad, R, 4): what a chunk of time needs of one
// sequence is one contiguous run, whatever the length of the chunk.
#pragma once

#include <cuda_runtime.h>

namespace mac::cuda {

/// The columns a block works on at once. Known at compile time, so that addresses are constants.
template <int QUADS>
struct TimeColumns {
  static constexpr int quads = QUADS;
  static constexpr int stride = 4 * (quads % 2 == 1 ? quads : quads + 1);  // floats from row to row
};

/// A tensor in device memory, from the chunk's first quad of a sequence on.
struct TileView {
  float* data;
  int rows;   // channels of the tensor
  int quads;  // that exist

  __device__ TileView skip_rows(int count) const {
    TileView view = *this;
    view.data += 4 * count;
    return view;
  }
  __device__ bool has(int quad) const { return quad < quads; }
  __device__ float* at(int quad, int row) const {
    return data + (static_cast<size_t>(quad) * rows + row) * 4;
  }
};

__device__ inline float4& quad_at(float* p) { return *reinterpret_cast<float4*>(p); }
__device__ inline float4 quad_at(const float* p) { return *reinterpret_cast<const float4*>(p); }
__device__ inline float4 operator+(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}
__device__ inline float4 operator*(float4 a, float4 b) {
  return {a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w};
}
__device__ inline float2 operator*(float2 a, float2 b) { return {a.x * b.x, a.y * b.y}; }
__device__ inline float4 fma4(float a, float4 b, float4 c) {
  return {fmaf(a, b.x, c.x), fmaf(a, b.y, c.y), fmaf(a, b.z, c.z), fmaf(a, b.w, c.w)};
}
__device__ inline float4 fma4(float4 a, float4 b, float4 c) {
  return {fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w)};
}
__device__ inline float4 splat(float a) { return {a, a, a, a}; }
__device__ inline float sum(float4 a) { return (a.x + a.y) + (a.z + a.w); }
template <class F>
__device__ float4 map4(float4 a, F f) {
  return {f(a.x), f(a.y), f(a.z), f(a.w)};
}
template <class F>
__device__ float2 map2(float2 a, F f) {
  return {f(a.x), f(a.y)};
}

/// Zeroes the steps of a quad from `count` on.
__device__ inline float4 keep_first(float4 a, int count) {
  return {count > 0 ? a.x : 0, count > 1 ? a.y : 0, count > 2 ? a.z : 0, count > 3 ? a.w : 0};
}

__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
inline constexpr float log2_e = 1.4426950408889634f;
inline constexpr float ln_2 = 0.6931471805599453f;

/// Both errors are a few units in the last place for the arguments of a trained network (|x| < 10).
__device__ inline float sigmoid(float x) { return reciprocal(1.0f + exp2_approx(-log2_e * x)); }
__device__ inline float silu(float x) { return x * sigmoid(x); }
/// Derivative of SiLU, given s = σ(x).
__device__ inline float silu_slope(float x, float s) { return s * fmaf(x, 1 - s, 1.0f); }

/// log(1 + eˣ): max(x, 0) + log1p(e^−|x|), log1p(y) = 2 artanh(y / (2 + y)) as a series (argument ≤ 1/3),
/// which keeps the relative accuracy for small steps.
__device__ inline float softplus(float x) {
  const float y = exp2_approx(-log2_e * fabsf(x));
  const float r = __fdividef(y, 2 + y), r2 = r * r;
  float series = 1.0f / 15;
  series = fmaf(series, r2, 1.0f / 13);
  series = fmaf(series, r2, 1.0f / 11);
  series = fmaf(series, r2, 1.0f / 9);
  series = fmaf(series, r2, 1.0f / 7);
  series = fmaf(series, r2, 1.0f / 5);
  series = fmaf(series, r2, 1.0f / 3);
  return fmaxf(x, 0.0f) + 2 * fmaf(series * r2, r, r);
}

/// Some whole warps of a block.
struct Team {
  int thread, threads;
};
__device__ inline Team whole_block() { return {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)}; }

// -- moving tiles
// ----------------------------------------------------------------------------------------------

/// Starts copying 16 bytes to shared memory, or zeros if `exists` is not set (`from` must be valid all the
/// same).
__device__ inline void copy_quad(float* to, const float* from, bool exists = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(exists ? 16 : 0));
}

/// Starts copying `count` channels of a tensor into rows; finish with wait_for_copies and a barrier. TimeColumns
/// that don't exist get zeros. Reads go to the L2 cache, where other blocks' writes are visible.
template <class TimeColumns>
__device__ void load_rows(float* rows, TileView tensor, int count, TimeColumns columns,
                          Team team = whole_block()) {
  const int lane = team.thread % 32;
  for (int q = team.thread / 32; q < columns.quads; q += team.threads / 32) {
    const bool exists = tensor.has(q);
    const float* const from = tensor.at(exists ? q : 0, lane);
    float* const to = rows + lane * columns.stride + 4 * q;
#pragma unroll 4
    for (int first = 0; first < count; first += 32)  // the same number of times in every lane
      if (first + lane < count) copy_quad(to + first * columns.stride, from + 4 * first, exists);
  }
}

__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

template <class TimeColumns>
__device__ void store_rows(TileView tensor, const float* rows, int count, TimeColumns columns) {
  const int lane = threadIdx.x % 32;
  for (int q = threadIdx.x / 32; q < columns.quads; q += blockDim.x / 32) {
    if (!tensor.has(q)) continue;
    for (int row = lane; row < count; row += 32)
      __stcg(reinterpret_cast<float4*>(tensor.at(q, row)), quad_at(rows + row * columns.stride + 4 * q));
  }
}

/// Sums over the columns of a row, eight threads a row: `collect(row, quad, sums)` adds a quad's share to the
/// thread's VALUES sums, `finish(row, sums)` is called once a row with the totals.
template <int VALUES, class TimeColumns, class Collect, class Finish>
__device__ void sum_columns(int rows, TimeColumns columns, Collect collect, Finish finish) {
  const int part = threadIdx.x % 8;
  const int rounded = (rows + 3) / 4 * 4;  // whole warps take part in the shuffles
  for (int row = threadIdx.x / 8; row < rounded; row += blockDim.x / 8) {
    float sums[VALUES] = {};
    if (row < rows)
      for (int q = part; q < columns.quads; q += 8) collect(row, q, sums);
#pragma unroll
    for (int distance = 1; distance < 8; distance *= 2)
#pragma unroll
      for (int i = 0; i < VALUES; ++i) sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], distance);
    if (row < rows && part == 0) finish(row, sums);
  }
}

// -- layer norm
// ------------------------------------------------------------------------------------------------

/// Four threads a column. Each calls f(column, part, exists) for channels part, part + 4, ...; whole warps
/// take part, also where the column does not exist.
template <class TimeColumns, class F>
__device__ void for_each_column(TimeColumns columns, Team team, F f) {
  const int count = 4 * columns.quads, rounded = (count + 7) / 8 * 8;
  for (int column = team.thread / 4; column < rounded; column += team.threads / 4)
    f(min(column, count - 1), team.thread % 4, column < count);
}

/// f(channel) for the channels of one of a column's four threads.
template <class F>
__device__ void for_each_channel(int part, int count, F f) {
#pragma unroll
  for (int k = 0; k < (count + 3) / 4; ++k)
    if (part + 4 * k < count) f(part + 4 * k);
}

__device__ inline float sum_of_four_threads(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

/// finish(channel, column, (in − μ) · scale) over the `count` channels of a column, scale = 1/√(variance +
/// 1e-5). A non-null `scales` (columns) gets the scale.
template <class TimeColumns, class Finish>
__device__ void normalise(float* scales, const float* in, int count, TimeColumns columns, Team team,
                          Finish finish) {
  const float share = 1.0f / static_cast<float>(count);
  for_each_column(columns, team, [&](int column, int part, bool exists) {
    float total = 0;
    for_each_channel(part, count, [&](int i) { total += in[i * columns.stride + column]; });
    const float mean = sum_of_four_threads(total) * share;
    float squares = 0;
    for_each_channel(part, count, [&](int i) {
      const float difference = in[i * columns.stride + column] - mean;
      squares = fmaf(difference, difference, squares);
    });
    const float scale = rsqrtf(fmaf(sum_of_four_threads(squares), share, 1e-5f));
    if (!exists) return;
    if (scales && part == 0) scales[column] = scale;
    for_each_channel(part, count,
                     [&](int i) { finish(i, column, (in[i * columns.stride + column] - mean) * scale); });
  });
}

/// out = weight · n + bias, n = (in − μ) · scale as above; a non-null `normalised` gets n (it may be `in`).
template <class TimeColumns>
__device__ void layer_norm_forward(float* out, float* normalised, float* scales, const float* in,
                                   const float* weight, const float* bias, int count, TimeColumns columns) {
  normalise(scales, in, count, columns, whole_block(), [&](int i, int column, float n) {
    if (normalised) normalised[i * columns.stride + column] = n;
    out[i * columns.stride + column] = fmaf(weight[i], n, bias[i]);
  });
}

/// finish(channel, column, scale (g − mean(g) − n mean(g n))), g = weight · d_out, n the normalised input.
template <class TimeColumns, class Finish>
__device__ void layer_norm_backward(const float* d_out, const float* normalised, const float* scales,
                                    const float* weight, int count, TimeColumns columns, Team team,
                                    Finish finish) {
  const float share = 1.0f / static_cast<float>(count);
  for_each_column(columns, team, [&](int column, int part, bool exists) {
    float total = 0, total_normalised = 0;
    for_each_channel(part, count, [&](int i) {
      const float g = __fmul_rn(weight[i], d_out[i * columns.stride + column]);
      total += g;
      total_normalised = fmaf(g, normalised[i * columns.stride + column], total_normalised);
    });
    const float mean = sum_of_four_threads(total) * share;
    const float mean_normalised = sum_of_four_threads(total_normalised) * share;
    if (!exists) return;
    const float scale = scales[column];
    for_each_channel(part, count, [&](int i) {
      const int at = i * columns.stride + column;
      const float g =
          __fmul_rn(weight[i], d_out[at]);  // rounded, as in the mean: one channel has no gradient
      finish(i, column, scale * (g - mean - normalised[at] * mean_normalised));
    });
  });
}

}  // namespace mac::cuda
