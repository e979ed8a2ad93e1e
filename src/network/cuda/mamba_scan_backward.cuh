// Backward pass of the selective scan over one chunk.
//
// With g_t the gradient of s_t, coming from later steps as g_{t+1} exp(Δ_{t+1} A), and d = dL/dp:
//
//   g_t += d_t C_t              dC_t += Σ_channels d_t s_t         dB_t += Σ_channels Δ_t v_t g_t
//   dΔ_t = Σ_n A exp(Δ_t A) s_{t−1} g_t + v_t Σ_n B_t g_t          dv_t = D d_t + Δ_t Σ_n B_t g_t
//   dA  += Σ_t Δ_t exp(Δ_t A) s_{t−1} g_t
//
// The forward pass left the state before each quad of steps; the walk back recomputes the four states of a
// quad in registers.
#pragma once

#include "network/cuda/mamba_scan.cuh"

namespace mac::cuda {

/// What a thread of the scan keeps from chunk to chunk.
template <int S>
struct ScanCarry {
  float A[2][S];  // times log₂e; 0 where there is no state
  float d_state[2][S];
  float d_A[2][S];  // without its factor A

  /// d_final (d_state, d_inner) may be null.
  __device__ ScanCarry(const float* A_log, const float* d_final, const MambaSizes& sizes,
                       const ScanThread& thread)
      : d_state{}, d_A{} {
    load_decay(A, A_log, sizes, thread);
    if (d_final)
      for_each_state<S>(sizes, thread, [&](int l, int i, int channel, int n) {
        d_state[l][i] = d_final[n * sizes.d_inner + channel];
      });
  }
};

/// The sums over a warp's eight pairs of B[i][step] and C[i][step]; each thread gets S of them: those of step
/// lane/4 % 4, of B for the lower half of the warp and of C for the upper.
template <int S>
__device__ void sum_over_pairs(float (&sums)[S], const float (&B)[S][4], const float (&C)[S][4]) {
  const int lane = threadIdx.x % 32;
  const bool late = lane & 4, odd = lane & 8, upper = lane & 16;
  const auto exchange = [](bool second, float a, float b, int distance) {
    return (second ? b : a) + __shfl_xor_sync(0xffffffffu, second ? a : b, distance);
  };
#pragma unroll
  for (int i = 0; i < S; ++i) {
    const float b =
        exchange(odd, exchange(late, B[i][0], B[i][2], 4), exchange(late, B[i][1], B[i][3], 4), 8);
    const float c =
        exchange(odd, exchange(late, C[i][0], C[i][2], 4), exchange(late, C[i][1], C[i][3], 4), 8);
    sums[i] = exchange(upper, b, c, 16);
  }
}
/// The step that sum_over_pairs leaves with this thread.
__device__ inline int step_of_sums() { return (threadIdx.x & 4 ? 2 : 0) + (threadIdx.x & 8 ? 1 : 0); }

/// Rows of the chunk in shared memory.
struct ScanBackward {
  const float *v, *projected;
  float *delta, *d_p;    // become dΔ and dv
  float *gate, *d_gate;  // silu(z) becomes dz; d_gated · silu'(z) becomes the gated output
  float* sums;           // (slab, quad, row of B and C, 4): each slab's part of dB and dC
  float* zeros;          // a row of them
};

template <int S, class Columns>
struct ScanRows {
  const float *v[2], *B, *C;
  float *delta[2], *d[2], *gate, *d_gate, *sums;

  __device__ ScanRows(const ScanBackward& in, int rank, const ScanThread& thread) {
    constexpr Columns columns;
    B = in.projected + (rank + thread.group * S) * columns.stride;
    C = B + 4 * S * columns.stride;
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      const int row = thread.own(l) * columns.stride;
      v[l] = in.v + row;
      delta[l] = thread.exists ? in.delta + row : in.zeros, d[l] = thread.exists ? in.d_p + row : in.zeros;
    }
    gate = in.gate + thread.channel * columns.stride, d_gate = in.d_gate + thread.channel * columns.stride;
    sums = in.sums + thread.slab * columns.quads * 32 * S;
  }
};

/// Walk back through one quad of steps, before which the states were `start`.
template <int S, class Columns>
__device__ void scan_quad_backward(const ScanRows<S, Columns>& rows, int q, const float2 (&start)[S],
                                   ScanCarry<S>& carry, float D, const ScanThread& thread) {
  constexpr Columns columns;
  float delta[2][4], input[2][4], d[2][4];
#pragma unroll
  for (int l = 0; l < 2; ++l) {
    const float4 step = quad_at(rows.delta[l] + 4 * q);
    unpack(delta[l], step);
    unpack(input[l], step * quad_at(rows.v[l] + 4 * q));
    unpack(d[l], quad_at(rows.d[l] + 4 * q));
  }

  float from_decay[2][4] = {}, from_input[2][4] = {}, p[2][4] = {};  // Σ_n A exp(ΔA) s g, Σ_n B g, Σ_n C s
  float d_B[S][4], d_C[S][4];
#pragma unroll
  for (int i = 0; i < S; ++i) {
    float B[4], C[4], decay[2][4], state[2][5];
    unpack(B, quad_at(rows.B + i * columns.stride + 4 * q));
    unpack(C, quad_at(rows.C + i * columns.stride + 4 * q));
    state[0][0] = start[i].x, state[1][0] = start[i].y;
#pragma unroll
    for (int l = 0; l < 2; ++l)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        decay[l][j] = exp2_approx(delta[l][j] * carry.A[l][i]);
        state[l][j + 1] = fmaf(decay[l][j], state[l][j], input[l][j] * B[j]);
        p[l][j] = fmaf(C[j], state[l][j + 1], p[l][j]);
      }
#pragma unroll
    for (int j = 3; j >= 0; --j) {
      d_B[i][j] = d_C[i][j] = 0;
#pragma unroll
      for (int l = 0; l < 2; ++l) {
        d_C[i][j] = fmaf(d[l][j], state[l][j + 1], d_C[i][j]);
        const float g = fmaf(d[l][j], C[j], carry.d_state[l][i]);
        d_B[i][j] = fmaf(g, input[l][j], d_B[i][j]);
        from_input[l][j] = fmaf(g, B[j], from_input[l][j]);
        carry.d_state[l][i] = g * decay[l][j];
        const float decayed = carry.d_state[l][i] * state[l][j];
        from_decay[l][j] = fmaf(carry.A[l][i], decayed, from_decay[l][j]);
        carry.d_A[l][i] = fmaf(delta[l][j], decayed, carry.d_A[l][i]);
      }
    }
  }

  float sums[S];
  sum_over_pairs(sums, d_B, d_C);
  const int first_row = (threadIdx.x & 16 ? 4 * S : 0) + thread.group * S;
#pragma unroll
  for (int i = 0; i < S; ++i) rows.sums[q * 32 * S + (first_row + i) * 4 + step_of_sums()] = sums[i];

  const float2 decayed = sum_over_states(from_decay, thread.group),
               fed = sum_over_states(from_input, thread.group), p_sums = sum_over_states(p, thread.group);
  __syncwarp();
  if (!thread.exists) return;
  const int step = 4 * q + thread.first_step();
  const auto pair_at = [&](float* row) -> float2& { return *reinterpret_cast<float2*>(row + step); };
  const float2 v = *reinterpret_cast<const float2*>(rows.v[0] + step), here = pair_at(rows.delta[0]),
               d_p = pair_at(rows.d[0]), gate = pair_at(rows.gate), d_gate = pair_at(rows.d_gate);
  const float2 p_all{fmaf(D, v.x, p_sums.x), fmaf(D, v.y, p_sums.y)};
  pair_at(rows.delta[0]) = {fmaf(ln_2, decayed.x, v.x * fed.x), fmaf(ln_2, decayed.y, v.y * fed.y)};
  pair_at(rows.d[0]) = {fmaf(D, d_p.x, here.x * fed.x), fmaf(D, d_p.y, here.y * fed.y)};
  pair_at(rows.gate) = {p_all.x * d_gate.x, p_all.y * d_gate.y};
  pair_at(rows.d_gate) = {p_all.x * gate.x, p_all.y * gate.y};
}

/// Row r (B, then C, padded) of the gradient that the slabs left in pieces.
template <class Sizes, class Columns>
__device__ float4 scan_sums(const float* sums, const Sizes& s, Columns columns, int r, int q) {
  float4 total = splat(0);
#pragma unroll
  for (int slab = 0; slab < s.slabs(); ++slab)
    total = total + quad_at(sums + (slab * columns.quads + q) * 32 * s.states_per_thread + 4 * r);
  return total;
}

}  // namespace mac::cuda
