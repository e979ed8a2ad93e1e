// The recurrence of the GRU's backward pass, whose equations are in gru_backward.cu.
#pragma once

#include "network/kinds/gru/cuda/block.cuh"

namespace mac::cuda::backward {

/// How the gradients before the activations lie in shared memory: step by step, (step, ld), within a step
/// d_r, d_z, d_q one after the other, as in the rows of the recurrent weights, and then d_n at an even place.
/// What lies between and after them is zero.
struct GateGradients {
  int d, ld;

  /// `read`: numbers of a step that the recurrence reads.
  __host__ __device__ GateGradients(int d_model, int read) : d(d_model) {
    const int used = n() + d + 8, eights = ((used > read ? used : read) + 7) / 8;
    ld = 8 * (eights | 1);  // an odd number of eights: reads of tiles are spread over the banks
  }
  __host__ __device__ int n() const { return round_up(3 * d, 2); }
  /// Of row k of the input weights, whose gates are r, z, n.
  __host__ __device__ int of_input(int k) const { return k < 2 * d ? k : n() + k - 2 * d; }
};

/// Two units and a part of the rows of the recurrent weights, of which `lanes` threads have one each. A
/// thread sums its part for its own unit (2 (thread / lanes) + thread % 2) and for its neighbour's.
template <int UNITS>
struct UnitColumns {
  static constexpr int lanes = UNITS > 32 ? 4 : 2;
  static constexpr int threads = (UNITS / 2 * lanes + 31) / 32 * 32;
  static constexpr int quads = (3 * UNITS + 4 * lanes - 1) / (4 * lanes);
  static constexpr int read = 4 * lanes * quads;  // numbers of a step, over all parts
  float own[4 * quads], neighbour[4 * quads];

  static __device__ int unit(int thread) { return thread / lanes * 2 + thread % 2; }

  __device__ UnitColumns(const float* weight, int thread, int d) {
    const int i = min(unit(thread), d - 1), j = min(unit(thread ^ 1), d - 1);
#pragma unroll
    for (int k = 0; k < 4 * quads; ++k) {
      const int row = 4 * (k / 4 * lanes + thread % lanes) + k % 4;
      own[k] = row < 3 * d ? weight[row * d + i] : 0;
      neighbour[k] = row < 3 * d ? weight[row * d + j] : 0;
    }
  }

  /// Σ_rows weight · gradients for the thread's own unit, plus `start`.
  __device__ float multiply(const float* gradients, int thread, float start) const {
    const float* const part = gradients + 4 * (thread % lanes);
    float sums[2] = {lanes == 2 || thread % lanes < 2 ? start : 0, 0}, others[2] = {};
#pragma unroll
    for (int k = 0; k < 4 * quads; k += 4) {
      const float4 x = quad_at(part + k * lanes);
      sums[0] = fmaf(own[k], x.x, sums[0]), others[0] = fmaf(neighbour[k], x.x, others[0]);
      sums[1] = fmaf(own[k + 1], x.y, sums[1]), others[1] = fmaf(neighbour[k + 1], x.y, others[1]);
      sums[0] = fmaf(own[k + 2], x.z, sums[0]), others[0] = fmaf(neighbour[k + 2], x.z, others[0]);
      sums[1] = fmaf(own[k + 3], x.w, sums[1]), others[1] = fmaf(neighbour[k + 3], x.w, others[1]);
    }
    const float sum = (sums[0] + sums[1]) + __shfl_xor_sync(0xffffffffu, others[0] + others[1], 1);
    return lanes == 2 ? sum : sum + __shfl_xor_sync(0xffffffffu, sum, 2);
  }
};

/// Rows of a chunk that the recurrence reads.
struct RecurrenceRows {
  const float *d_out, *factors;  // factors: a_r, a_z, a_q, a_n, z
};

/// The steps of a chunk, last to first, into `to`. `carried` is what g gets from the step after. Between two
/// sequences of the run it becomes after_sequence(last quad of the first), when before_sequence(first quad of
/// the second) has been called.
template <int UNITS, class C, class Chunk, class Roles, class After, class Before>
__device__ void recur_back(const UnitColumns<UNITS>& w, float& carried, float* to, const GateGradients& of,
                           const RecurrenceRows& rows, const Chunk& chunk, After after_sequence,
                           Before before_sequence, const Roles& roles, C columns) {
  const int d = of.d, own = w.unit(roles.thread), unit = min(own, d - 1);
  const bool writes = own < d && (w.lanes == 2 || roles.thread % w.lanes < 2);
  const float *const d_out_row = rows.d_out + unit * columns.stride, *const factor_row =
                                                                         rows.factors + unit * columns.stride;
  float d_out[4], a_r[4], a_z[4], a_q[4], a_n[4], keep[4];
  const auto load = [&](int quad) {
    const auto unpack = [&](float(&values)[4], const float* row) {
      const float4 x = quad_at(row + 4 * quad);
      values[0] = x.x, values[1] = x.y, values[2] = x.z, values[3] = x.w;
    };
    const int next = d * columns.stride;
    unpack(d_out, d_out_row), unpack(a_r, factor_row), unpack(a_z, factor_row + next);
    unpack(a_q, factor_row + 2 * next), unpack(a_n, factor_row + 3 * next);
    unpack(keep, factor_row + 4 * next);
  };
  load(columns.quads - 1);
  float* step = to + 4 * columns.quads * of.ld;
#pragma unroll 1
  for (int quad = columns.quads; quad-- > 0;) {
    if (chunk.begins(quad + 1)) carried = after_sequence(chunk.first_quad + quad);
    const int steps = chunk.steps(quad);
#pragma unroll
    for (int j = 3; j >= 0; --j) {
      step -= of.ld;
      const bool exists = j < steps;
      const float g = exists ? carried + d_out[j] : 0;
      if (writes) {
        step[unit] = g * a_r[j], step[d + unit] = g * a_z[j], step[2 * d + unit] = g * a_q[j];
        step[of.n() + unit] = g * a_n[j];
      }
      const float kept = g * keep[j];
      roles.meet_recurrent();
      if (j == 0 && quad > 0) load(quad - 1);  // in time for the next step
      if (exists) carried = w.multiply(step, roles.thread, kept);
    }
    if (chunk.begins(quad)) before_sequence(chunk.first_quad + quad);
  }
}

}  // namespace mac::cuda::backward
