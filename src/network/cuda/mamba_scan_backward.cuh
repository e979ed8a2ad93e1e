// Backward pass of the selective scan over one chunk.
//
// With g_t the gradient of s_t, coming from later steps as g_{t+1} exp(Δ_{t+1} A), and d = dL/dp:
//
//   g_t += d_t C_t              dC_t += Σ_channels d_t s_t         dB_t += Σ_channels Δ_t v_t g_t
//   dΔ_t = Σ_n A exp(Δ_t A) s_{t−1} g_t + v_t Σ_n B_t g_t          dv_t = D d_t + Δ_t Σ_n B_t g_t
//   dA  += Σ_t Δ_t exp(Δ_t A) s_{t−1} g_t
//
// A first walk forward in time finds the state before each quad of steps, p, and the gate's gradients; the
// walk back recomputes the four states of a quad in registers.
#pragma once

#include "network/cuda/mamba_scan.cuh"

namespace mac::cuda {

/// Rows and carried numbers of the chunk in shared memory.
struct ScanBackward {
  const float *A, *D;                  // A times log₂e
  const float* start;                  // (sequence, state_count): the state before the chunk
  float *d_state, *d_A;                // (sequence, state_count): carried; d_A without its factor A
  float* d_D;                          // (sequence, d_inner)
  const float *v, *projected;          // rows
  float *delta, *z, *d_gated, *gated;  // rows: Δ becomes dΔ, z dz, d_gated dp and then dv; gated is an output
  float* checkpoints;                  // (scan warp, quad, 64 S): states, then partial sums of dB and dC
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

template <int S, class Columns>
struct ScanRows {
  const float *v[2], *B, *C;
  float *delta[2], *d[2], *z, *gated;
  float* checkpoints;

  __device__ ScanRows(const ScanBackward& in, int rank, const ScanThread& thread) {
    constexpr Columns columns;
    const int first = thread.sequence * columns.length * 4;
    B = in.projected + (rank + thread.group * S) * columns.stride + first;
    C = B + 4 * S * columns.stride;
    for (int l = 0; l < 2; ++l) {
      const int row = thread.own(l) * columns.stride + first;
      v[l] = in.v + row, delta[l] = in.delta + row, d[l] = in.d_gated + row;
      if (l == 0) z = in.z + row, gated = in.gated + row;
    }
    checkpoints = in.checkpoints + thread.warp * columns.length * 64 * S;
  }
};

/// Walk forward: fills the checkpoints, gated, dz and dp; returns this thread's share of dD.
template <int S, class Columns>
__device__ float scan_gate_backward(const ScanRows<S, Columns>& rows, const float (&A)[2][S],
                                    float (&state)[2][S], float D, const ScanThread& thread) {
  constexpr Columns columns;
  const int lane = threadIdx.x % 32;
  float d_D = 0;
  for (int q = 0; q < columns.length; ++q) {
#pragma unroll
    for (int l = 0; l < 2; ++l)
#pragma unroll
      for (int i = 0; i < S; ++i) rows.checkpoints[(q * 2 * S + l * S + i) * 32 + lane] = state[l][i];
    float delta[2][4], input[2][4], p[2][4] = {};
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      const float4 step = quad_at(rows.delta[l] + 4 * q);
      unpack(delta[l], step);
      unpack(input[l], step * quad_at(rows.v[l] + 4 * q));
    }
#pragma unroll
    for (int i = 0; i < S; ++i) {
      float B[4], C[4];
      unpack(B, quad_at(rows.B + i * columns.stride + 4 * q));
      unpack(C, quad_at(rows.C + i * columns.stride + 4 * q));
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int l = 0; l < 2; ++l) {
          state[l][i] = fmaf(exp2_approx(delta[l][j] * A[l][i]), state[l][i], input[l][j] * B[j]);
          p[l][j] = fmaf(C[j], state[l][i], p[l][j]);
        }
    }
    const float2 sums = sum_over_states(p, thread.group);
    __syncwarp();
    if (!thread.exists) continue;
    const int step = 4 * q + thread.first_step();
    const auto pair_at = [&](float* row) -> float2& { return *reinterpret_cast<float2*>(row + step); };
    const float2 z = pair_at(rows.z), d_gated = pair_at(rows.d[0]);
    const float2 v = *reinterpret_cast<const float2*>(rows.v[0] + step);
    const float2 p_all{fmaf(D, v.x, sums.x), fmaf(D, v.y, sums.y)};
    const float2 s{sigmoid(z.x), sigmoid(z.y)};
    const float2 d_p{d_gated.x * z.x * s.x, d_gated.y * z.y * s.y};
    pair_at(rows.gated) = {p_all.x * z.x * s.x, p_all.y * z.y * s.y};
    pair_at(rows.z) = {d_gated.x * p_all.x * silu_slope(z.x, s.x),
                       d_gated.y * p_all.y * silu_slope(z.y, s.y)};
    pair_at(rows.d[0]) = d_p;
    d_D = fmaf(d_p.x, v.x, fmaf(d_p.y, v.y, d_D));
  }
  return d_D;
}

/// Walk back through one quad of steps.
template <int S, class Columns>
__device__ void scan_quad_backward(const ScanRows<S, Columns>& rows, int q, const float (&A)[2][S],
                                   float (&d_state)[2][S], float (&d_A)[2][S], float D,
                                   const ScanThread& thread) {
  constexpr Columns columns;
  const int lane = threadIdx.x % 32;
  float delta[2][4], input[2][4], d[2][4];
#pragma unroll
  for (int l = 0; l < 2; ++l) {
    const float4 zero = splat(0);
    const float4 step = thread.exists ? quad_at(rows.delta[l] + 4 * q) : zero;
    unpack(delta[l], step);
    unpack(input[l], step * quad_at(rows.v[l] + 4 * q));
    unpack(d[l], thread.exists ? quad_at(rows.d[l] + 4 * q) : zero);
  }

  float from_decay[2][4] = {}, from_input[2][4] = {};  // Σ_n A exp(ΔA) s g and Σ_n B g
  float d_B[S][4], d_C[S][4];
#pragma unroll
  for (int i = 0; i < S; ++i) {
    float B[4], C[4], decay[2][4], state[2][5];
    unpack(B, quad_at(rows.B + i * columns.stride + 4 * q));
    unpack(C, quad_at(rows.C + i * columns.stride + 4 * q));
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      state[l][0] = rows.checkpoints[(q * 2 * S + l * S + i) * 32 + lane];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        decay[l][j] = exp2_approx(delta[l][j] * A[l][i]);
        state[l][j + 1] = fmaf(decay[l][j], state[l][j], input[l][j] * B[j]);
      }
    }
#pragma unroll
    for (int j = 3; j >= 0; --j) {
      d_B[i][j] = d_C[i][j] = 0;
#pragma unroll
      for (int l = 0; l < 2; ++l) {
        d_C[i][j] = fmaf(d[l][j], state[l][j + 1], d_C[i][j]);
        const float g = fmaf(d[l][j], C[j], d_state[l][i]);
        d_B[i][j] = fmaf(g, input[l][j], d_B[i][j]);
        from_input[l][j] = fmaf(g, B[j], from_input[l][j]);
        d_state[l][i] = g * decay[l][j];
        const float decayed = d_state[l][i] * state[l][j];
        from_decay[l][j] = fmaf(A[l][i], decayed, from_decay[l][j]);
        d_A[l][i] = fmaf(delta[l][j], decayed, d_A[l][i]);
      }
    }
  }

  float sums[S];
  sum_over_pairs(sums, d_B, d_C);  // every thread has read its checkpoint by now: its place takes the sums
  const int first_row = (lane & 16 ? 4 * S : 0) + thread.group * S;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < S; ++i) rows.checkpoints[q * 64 * S + (first_row + i) * 4 + step_of_sums()] = sums[i];

  const float2 decayed = sum_over_states(from_decay, thread.group),
               fed = sum_over_states(from_input, thread.group);
  __syncwarp();
  if (!thread.exists) return;
  const int step = 4 * q + thread.first_step();
  float2& delta_pair = *reinterpret_cast<float2*>(rows.delta[0] + step);
  float2& d_pair = *reinterpret_cast<float2*>(rows.d[0] + step);
  const float2 v = *reinterpret_cast<const float2*>(rows.v[0] + step), here = delta_pair;
  delta_pair = {fmaf(ln_2, decayed.x, v.x * fed.x), fmaf(ln_2, decayed.y, v.y * fed.y)};
  d_pair = {fmaf(D, d_pair.x, here.x * fed.x), fmaf(D, d_pair.y, here.y * fed.y)};
}

template <class Sizes, class Columns>
__device__ void scan_backward(const ScanBackward& in, const Sizes& s, Columns columns) {
  constexpr int S = Sizes::states_per_thread;
  for_each_scan_thread(s.d_inner, columns.sequences, [&](const ScanThread& thread) {
    const int first_state = thread.sequence * s.state_count();
    const ScanRows<S, Columns> rows(in, s.rank, thread);
    const float D = in.D[thread.own(0)];
    float A[2][S], state[2][S];
    load_states(A, in.A, thread);
    load_states(state, in.start + first_state, thread);
    float d_D = scan_gate_backward(rows, A, state, D, thread);
    d_D += __shfl_xor_sync(0xffffffffu, d_D, 2);
    if (thread.exists && thread.group < 2) in.d_D[thread.sequence * s.d_inner + thread.own(0)] += d_D;
    __syncwarp();

    float d_state[2][S], d_A[2][S];
    load_states(d_state, in.d_state + first_state, thread);
    load_states(d_A, in.d_A + first_state, thread);
    for (int q = columns.length; q-- > 0;) scan_quad_backward(rows, q, A, d_state, d_A, D, thread);
    store_states(in.d_state + first_state, d_state, thread);
    store_states(in.d_A + first_state, d_A, thread);
  });
}

/// Row r (B, then C, padded) of the gradient that scan_backward left in pieces, one of each warp of the
/// sequence.
template <class Sizes, class Columns>
__device__ float4 scan_sums(const float* checkpoints, const Sizes& s, Columns columns, int r, int q) {
  const int warps = scan_warps(s.d_inner), sequence = columns.sequence_of(q);
  const int quad = columns.quad_in_sequence(q), size = 64 * s.states_per_thread;
  float4 total = splat(0);
  for (int w = 0; w < warps; ++w)
    total = total + quad_at(checkpoints + ((sequence * warps + w) * columns.length + quad) * size + 4 * r);
  return total;
}

}  // namespace mac::cuda
