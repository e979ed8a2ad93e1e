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

#include "network/kinds/mamba/cuda/scan.cuh"

namespace mac::cuda {

/// What a thread of the scan keeps from chunk to chunk.
template <int S>
struct ScanCarry {
  float A[2][S];  // times log₂e; 0 where there is no state
  float d_state[2][S];
  float d_A[2][S];  // without its factor A

  __device__ ScanCarry(const float* A_log, const MambaSizes& sizes, const ScanThread& thread)
      : d_state{}, d_A{} {
    load_decay(A, A_log, sizes, thread);
  }
  /// From the end of a sequence on; d_final (d_state, d_inner) may be null.
  __device__ void start(const float* d_final, const MambaSizes& sizes, const ScanThread& thread) {
#pragma unroll
    for (int i = 0; i < 2 * S; ++i) d_state[i / S][i % S] = 0;
    if (d_final && thread.exists)
      for_each_state<S>(sizes, thread, [&](int l, int i, int channel, int n) {
        d_state[l][i] = d_final[n * sizes.d_inner + channel];
      });
  }
};

/// The sums over a warp's eight pairs of B[i][step] and C[i][step]; each thread gets S of them: those of step
/// lane/4 % 4, of B for the lower half of the warp and of C for the upper.
template <int S>
__device__ void sum_over_pairs(float (&sums)[S], const float (&B)[S][4], const float (&C)[S][4]) {
  const int lane = lane_of_warp();
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
/// Where in (row of B and C, 4) the first of them belongs.
template <int S>
__device__ int place_of_sums(const ScanThread& thread) {
  const int lane = lane_of_warp(), row = (lane & 16 ? 4 * S : 0) + thread.group * S;
  return 4 * row + (lane & 4 ? 2 : 0) + (lane & 8 ? 1 : 0);
}

/// Where a thread finds a quad of steps in shared memory; the walk goes back quad by quad.
struct ScanPlace {
  float* v[2];  // of its channels; delta_from_v further on Δ, which becomes dΔ
  float* d[2];  // dL/dp becomes dv; gate_from_d further on d_gated · silu'(z), which becomes the gated output
  float* gate;  // silu(z) of channel 0 becomes dz
  float* B;     // first of its rows of B; C's follow those of all groups
  float* sums;  // (slab, quad, row of B and C, 4): each slab's part of dB and dC, first of those it writes
  int delta_from_v, gate_from_d;

  __device__ void step_back(int floats_of_sums) {
    v[0] -= 4, v[1] -= 4, d[0] -= 4, d[1] -= 4, gate -= 4, B -= 4, sums -= floats_of_sums;
  }
};

/// Walk back through one quad of steps, before which the states were `start`. They then become those at
/// `checkpoint`, if there is `more` to come.
template <int S, class TimeColumns>
__device__ void scan_quad_backward(const ScanPlace& place, TimeColumns columns, float2 (&start)[S],
                                   const float* checkpoint, bool more, ScanCarry<S>& carry, float D,
                                   const ScanThread& thread) {
  float delta[2][4], input[2][4], d[2][4];
#pragma unroll
  for (int l = 0; l < 2; ++l) {
    const float4 step = quad_at(place.v[l] + place.delta_from_v);
    unpack(delta[l], step);
    unpack(input[l], step * quad_at(place.v[l]));
    unpack(d[l], quad_at(place.d[l]));
  }

  float from_decay[2][4] = {}, from_input[2][4] = {}, p[2][4] = {};  // Σ_n A exp(ΔA) s g, Σ_n B g, Σ_n C s
  float d_B[S][4], d_C[S][4];
#pragma unroll
  for (int i = 0; i < S; ++i) {
    float B[4], C[4], decay[2][4], state[2][5];
    unpack(B, quad_at(place.B + i * columns.stride));
    unpack(C, quad_at(place.B + (4 * S + i) * columns.stride));
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
    if (more) start[i] = load_checkpoint(checkpoint, i);
  }

  float sums[S];
  sum_over_pairs(sums, d_B, d_C);
#pragma unroll
  for (int i = 0; i < S; ++i) place.sums[4 * i] = sums[i];

  const float2 decayed = sum_over_states(from_decay, thread.group),
               fed = sum_over_states(from_input, thread.group), p_sums = sum_over_states(p, thread.group);
  __syncwarp();
  const auto pair_at = [&](float* quad) -> float2& {
    return *reinterpret_cast<float2*>(quad + thread.first_step());
  };
  float2 &to_delta = pair_at(place.v[0] + place.delta_from_v), &to_d = pair_at(place.d[0]),
         &to_gate = pair_at(place.gate), &to_d_gate = pair_at(place.d[0] + place.gate_from_d);
  const float2 v = pair_at(place.v[0]), here = to_delta, d_p = to_d, gate = to_gate, d_gate = to_d_gate;
  const float2 p_all{fmaf(D, v.x, p_sums.x), fmaf(D, v.y, p_sums.y)};
  to_delta = {fmaf(ln_2, decayed.x, v.x * fed.x), fmaf(ln_2, decayed.y, v.y * fed.y)};
  to_d = {fmaf(D, d_p.x, here.x * fed.x), fmaf(D, d_p.y, here.y * fed.y)};
  to_d_gate = p_all * gate;
  if (thread.exists) to_gate = p_all * d_gate;
}

/// Row r (B, then C, padded) of the gradient that the slabs left in pieces.
template <class Sizes, class TimeColumns>
__device__ float4 scan_sums(const float* sums, const Sizes& s, TimeColumns columns, int r, int q) {
  float4 total = splat(0);
#pragma unroll
  for (int slab = 0; slab < s.slabs(); ++slab)
    total = total + quad_at(sums + (slab * columns.quads + q) * 32 * s.states_per_thread + 4 * r);
  return total;
}

}  // namespace mac::cuda
