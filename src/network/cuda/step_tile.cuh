// What the step kernels compute with. A block of threads takes a group of trajectories through the network one
// step at a time: activations are (channel, trajectory), TILE neighbouring trajectories to a thread.
#pragma once

#include "network/cuda/shared_layout.cuh"
#include "network/cuda/time_columns.cuh"

namespace mac::cuda {

/// TILE numbers, one for each of neighbouring trajectories.
template <int TILE>
struct Tile {
  float at[TILE];

  __device__ static Tile load(const float* from) {
    Tile tile;
    if constexpr (TILE == 4) {
      const float4 quad = quad_at(from);
      tile.at[0] = quad.x, tile.at[1] = quad.y, tile.at[2] = quad.z, tile.at[3] = quad.w;
    } else {
      tile.at[0] = *from;
    }
    return tile;
  }
  __device__ void store(float* to) const {
    if constexpr (TILE == 4)
      quad_at(to) = {at[0], at[1], at[2], at[3]};
    else
      *to = at[0];
  }
  __device__ static Tile splat(float value) {
    Tile tile;
    for (float& x : tile.at) x = value;
    return tile;
  }
  /// f(i) for each trajectory.
  template <class F>
  __device__ static Tile make(F f) {
    Tile tile;
#pragma unroll
    for (int i = 0; i < TILE; ++i) tile.at[i] = f(i);
    return tile;
  }
  template <class F>
  __device__ Tile map(F f) const {
    return make([&](int i) { return f(at[i]); });
  }
  template <class F>
  __device__ static Tile map(const Tile& a, const Tile& b, F f) {
    return make([&](int i) { return f(a.at[i], b.at[i]); });
  }
  __device__ void fma(float w, const Tile& x) {
#pragma unroll
    for (int i = 0; i < TILE; ++i) at[i] = fmaf(w, x.at[i], at[i]);
  }
  /// The sum over `lanes` neighbouring threads, in all of them.
  __device__ void sum_over(int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2)
#pragma unroll
      for (int i = 0; i < TILE; ++i) at[i] += __shfl_xor_sync(0xffffffffu, at[i], step);
  }
};

/// Calls f(i) for i < count on all threads of the block; warps stay whole: f is also called for some i >= count.
template <class F>
__device__ void for_each_item(int count, F f) {
  for (int i = threadIdx.x; i < round_up(count, 32); i += blockDim.x) f(i);
}

/// finish(o, first trajectory, Σ_i term(i, o, first trajectory, sum)), LANES threads to a sum.
template <int TILE, int LANES, class Term, class Finish>
__device__ void sums(int terms, int outputs, int group, Term term, Finish finish) {
  const int count = LANES * outputs * (group / TILE);
  for_each_item(count, [&](int item) {
    const int lane = item % LANES, at = min(item, count - 1) / LANES, o = at % outputs,
              g = at / outputs * TILE;
    auto sum = Tile<TILE>::splat(0);
#pragma unroll 4
    for (int i = lane; i < terms; i += LANES) term(i, o, g, sum);
    sum.sum_over(LANES);
    if (lane == 0 && item < count) finish(o, g, sum);
  });
}

/// finish(o, first trajectory, Σ_i w[i][o] in[i]).
template <int TILE, int LANES, class Finish>
__device__ void dense(const float* w, const float* in, int inputs, int outputs, int group, Finish finish) {
  sums<TILE, LANES>(
      inputs, outputs, group,
      [&](int i, int o, int g, Tile<TILE>& sum) {
        sum.fma(w[i * outputs + o], Tile<TILE>::load(in + i * group + g));
      },
      finish);
}

/// Rows that a step leaves for its gradient, (row, trajectory), in the order in which they are taken.
struct StepTape {
  static constexpr bool records = true;
  float* next;
  int group;

  __device__ float* take(int rows) {
    float* const start = next;
    next += rows * group;
    return start;
  }
};
struct NoTape {
  static constexpr bool records = false;
  __device__ float* take(int) { return nullptr; }
};

/// Rows of a layer norm on the tape: the normalised channels, and their scale.
__host__ __device__ constexpr int norm_rows(int channels) { return channels + 1; }

/// Sums over the channels of each trajectory, eight threads to one: collect(channel, trajectory, sums) adds to
/// VALUES sums, then finish(channel, trajectory, sums) is called with the totals.
template <int VALUES, class Collect, class Finish>
__device__ void over_channels(int channels, int group, Collect collect, Finish finish) {
  const int count = 8 * group;
  for_each_item(count, [&](int item) {
    const int lane = item % 8, g = min(item, count - 1) / 8;
    float sums[VALUES] = {};
    for (int i = lane; i < channels; i += 8) collect(i, g, sums);
    for (int step = 4; step > 0; step /= 2)
#pragma unroll
      for (float& sum : sums) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (item < count)
      for (int i = lane; i < channels; i += 8) finish(i, g, sums);
  });
}

/// to = LayerNorm(from), eight threads to a trajectory.
template <class Tape>
__device__ void layer_norm(float* to, const float* from, const float* weight, int d, int group, Tape& tape) {
  float* const normalised = tape.take(norm_rows(d));
  const int count = 8 * group;
  for_each_item(count, [&](int item) {
    const int lane = item % 8, g = min(item, count - 1) / 8;
    float total = 0;
    for (int i = lane; i < d; i += 8) total += from[i * group + g];
    for (int step = 4; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
    const float mean = total / static_cast<float>(d);
    float squares = 0;
    for (int i = lane; i < d; i += 8) {
      const float distance = from[i * group + g] - mean;
      squares = fmaf(distance, distance, squares);
    }
    for (int step = 4; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    const float scale = 1 / sqrtf(squares / static_cast<float>(d) + 1e-5f);
    if (item >= count) return;
    for (int i = lane; i < d; i += 8) {
      const float n = (from[i * group + g] - mean) * scale;
      to[i * group + g] = fmaf(n, weight[i], weight[d + i]);
      if constexpr (Tape::records) normalised[i * group + g] = n;
    }
    if constexpr (Tape::records)
      if (lane == 0) normalised[d * group + g] = scale;
  });
}

/// finish(channel, trajectory, gradient of the input) from d_out, that of the output, and the tape's rows.
template <class Finish>
__device__ void layer_norm_back(const float* d_out, const float* normalised, const float* weight, int d,
                                int group, Finish finish) {
  const float share = 1.0f / static_cast<float>(d);
  const auto slope = [&](int i, int g) { return __fmul_rn(weight[i], d_out[i * group + g]); };
  over_channels<2>(
      d, group,
      [&](int i, int g, float(&sums)[2]) {
        const float of = slope(i, g);
        sums[0] += of, sums[1] = fmaf(of, normalised[i * group + g], sums[1]);
      },
      [&](int i, int g, const float(&sums)[2]) {
        finish(i, g,
               normalised[d * group + g] *
                   (slope(i, g) - sums[0] * share - normalised[i * group + g] * (sums[1] * share)));
      });
}

}  // namespace mac::cuda
