// Parts of the selective scan that both passes share.
//
//   s_t = exp(Δ_t A) s_{t−1} + Δ_t B_t v_t,   p_t = C_t · s_t       (per channel; s has d_state entries)
//
// Four neighbouring threads work on a pair of channels, each on S of the states of both; a warp so holds
// eight pairs of one sequence. Within a thread the pair's order is swapped for odd threads: what a thread
// keeps in a sum over the four is then always its channel 0, what it gives away its channel 1.
#pragma once

#include "network/cuda/shared_layout.cuh"
#include "network/cuda/time_columns.cuh"
#include "network/kinds/mamba/cuda/problem.hpp"

namespace mac::cuda {

__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x % 32); }
/// The same as a value that stays in a register. It takes one, but the hardware would else be asked again
/// wherever the number is used.
__device__ inline int kept_lane() { return __shfl_sync(0xffffffffu, lane_of_warp(), lane_of_warp()); }

struct ScanThread {
  int channel;  // the one it keeps; the other of the pair is channel ^ 1
  int group;    // 0..3: states group·S ..
  bool exists;  // threads without a pair of their own repeat the last one and write nothing
  int slab;     // of 16 channels, a warp each

  __device__ ScanThread(int slab, int lane, int d_inner) : group(lane % 4), slab(slab) {
    const int pair = slab * 8 + lane / 4, pairs = d_inner / 2;
    channel = 2 * min(pair, pairs - 1) + group % 2;
    exists = pair < pairs;
  }
  __device__ int own(int l) const { return l == 0 ? channel : channel ^ 1; }
  /// The same in rows that have room for all channels of a slab.
  __device__ int row(int l) const { return slab * 16 + lane_of_warp() / 4 * 2 + (group % 2 ^ l); }
  __device__ int first_step() const { return group / 2 * 2; }  // of the two steps of a quad it keeps
};

/// For what concerns single channels: two threads a channel of their warp's slab, each with half a chunk.
struct SlabThread {
  int channel, half;
  bool exists;

  __device__ SlabThread(int slab, int d_inner) {
    const int wanted = slab * 16 + static_cast<int>(threadIdx.x % 16);
    channel = min(wanted, d_inner - 1), half = threadIdx.x % 32 / 16;
    exists = wanted < d_inner;
  }
  /// f(quad) for the thread's half of a chunk of `length` quads.
  template <int UNROLL = 1, class F>
  __device__ void for_each_quad(int length, F f) const {
    if (!exists) return;
#pragma unroll UNROLL
    for (int k = 0; k < length / 2; ++k) f(half * (length / 2) + k);
  }
};

/// Sums values[channel][step] over the four threads of a pair. Each gets the sums of its channel at two
/// steps.
__device__ inline float2 sum_over_states(const float (&values)[2][4], int group) {
  float kept[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) kept[j] = values[0][j] + __shfl_xor_sync(0xffffffffu, values[1][j], 1);
  const bool upper = group >= 2;
  const float given0 = upper ? kept[0] : kept[2], given1 = upper ? kept[1] : kept[3];
  return {(upper ? kept[2] : kept[0]) + __shfl_xor_sync(0xffffffffu, given0, 2),
          (upper ? kept[3] : kept[1]) + __shfl_xor_sync(0xffffffffu, given1, 2)};
}

/// f(channel of the pair, state of the thread, channel, state) for the thread's states that exist.
template <int S, class F>
__device__ void for_each_state(const MambaSizes& sizes, const ScanThread& thread, F f) {
#pragma unroll
  for (int l = 0; l < 2; ++l)
#pragma unroll
    for (int i = 0; i < S; ++i)
      if (const int n = thread.group * S + i; n < sizes.d_state) f(l, i, thread.own(l), n);
}

/// log₂e · A = −log₂e · exp(A_log) of the thread's states; 0 where there is no state.
template <int S>
__device__ void load_decay(float (&A)[2][S], const float* A_log, const MambaSizes& sizes,
                           const ScanThread& thread) {
  for (auto& of_channel : A)
    for (float& a : of_channel) a = 0;
  for_each_state<S>(sizes, thread, [&](int l, int i, int channel, int n) {
    A[l][i] = -log2_e * expf(A_log[channel * sizes.d_state + n]);
  });
}

/// The states of a slab before a quad of steps, as the forward pass leaves them for the backward pass: (state
/// of the thread, lane, channel of the pair).
template <int S>
__device__ void save_checkpoint(float* to, const float (&state)[2][S], int lane) {
#pragma unroll
  for (int i = 0; i < S; ++i)
    __stcg(reinterpret_cast<float2*>(to) + 32 * i + lane, make_float2(state[0][i], state[1][i]));
}
__device__ inline float2 load_checkpoint(const float* from, int i) {
  return __ldcg(reinterpret_cast<const float2*>(from) + 32 * i + lane_of_warp());
}

/// The four steps of a quad as an array, which unrolled loops can index.
__device__ inline void unpack(float (&to)[4], float4 from) {
  to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
}

/// The causal convolution of a quad of steps, given the quad before it: c_t = bias + Σ_k weight_k x_{t−3+k}.
__device__ inline float4 convolve(float4 weight, float bias, float4 before, float4 x) {
  const auto at = [&](float a, float b, float c, float d) {
    return fmaf(weight.x, a, fmaf(weight.y, b, fmaf(weight.z, c, fmaf(weight.w, d, bias))));
  };
  return {at(before.y, before.z, before.w, x.x), at(before.z, before.w, x.x, x.y),
          at(before.w, x.x, x.y, x.z), at(x.x, x.y, x.z, x.w)};
}

/// The row of x_proj that padded row r holds, or −1.
__device__ inline int projected_row(const MambaSizes& sizes, int r) {
  if (r < sizes.rank) return r;
  const int n = (r - sizes.rank) % sizes.padded_state(), second = (r - sizes.rank) / sizes.padded_state();
  return n < sizes.d_state ? sizes.rank + second * sizes.d_state + n : -1;
}

/// The parameters that keep their form in shared memory: from `of` in the layer's parameters to `at`.
template <class Layout, class Sizes>
__device__ void load_small_parameters(float* shared, const Layout& at, const Sizes& s, const float* from,
                                      const MambaOffsets& of) {
  const auto copy = [&](int to, int offset, int count) { load(shared + to, from + offset, count); };
  copy(at.norm_weight, of.norm_weight, s.d_model), copy(at.norm_bias, of.norm_bias, s.d_model);
  copy(at.conv_weight, of.conv_weight, 4 * s.d_inner), copy(at.conv_bias, of.conv_bias, s.d_inner);
  copy(at.step_weight, of.step_weight, s.d_inner * s.rank), copy(at.step_bias, of.step_bias, s.d_inner);
  copy(at.D, of.D, s.d_inner);
}

/// The quad of x before the sequence that begins at a quad of the run.
template <class Block>
__device__ float4 window_before(const Block& b, int quad, int channel) {
  if (!b.problem.initial_state) return splat(0);
  const float* const from = b.state(b.problem.initial_state, quad).window + channel;
  return {0, from[0], from[b.s.d_inner], from[2 * b.s.d_inner]};
}

/// Whether a kernel's variant was compiled for these sizes.
template <class Kernel>
bool suits(const Variant<Kernel, MambaSizes>& variant, const MambaSizes& sizes) {
  return variant.units == sizes.states_per_thread &&
         (variant.d_model == 0 || variant.d_model == sizes.d_model) &&
         (variant.d_state == 0 || variant.d_state == sizes.d_state);
}

/// The state of a sequence as the network's interface has it, for one layer: the last three x (3, d_inner),
/// then s (d_state, d_inner).
struct StateOfLayer {
  float* window;
  float* states;

  template <class T>
  __host__ __device__ static StateOfLayer of(T* state, int sequence, int layer, int layers,
                                             const MambaSizes& sizes) {
    float* const start =
        const_cast<float*>(state) + (static_cast<size_t>(sequence) * layers + layer) * sizes.layer_state();
    return {start, start + 3 * sizes.d_inner};
  }
};

}  // namespace mac::cuda
