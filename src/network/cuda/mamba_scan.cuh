// Parts of the selective scan that both passes share.
//
//   s_t = exp(Δ_t A) s_{t−1} + Δ_t B_t v_t,   p_t = C_t · s_t       (per channel; s has d_state entries)
//
// Four neighbouring threads work on a pair of channels, each on S of the states of both; a warp so holds
// eight pairs of one sequence. Within a thread the pair's order is swapped for odd threads: what a thread
// keeps in a sum over the four is then always its channel 0, what it gives away its channel 1.
#pragma once

#include "network/cuda/columns.cuh"
#include "network/cuda/mamba.hpp"
#include "network/cuda/shared_layout.cuh"

namespace mac::cuda {

struct ScanThread {
  int channel;  // the one it keeps; the other of the pair is channel ^ 1
  int group;    // 0..3: states group·S ..
  bool exists;  // threads without a pair of their own repeat the last one and write nothing
  int slab;     // of 16 channels, a warp each

  __device__ ScanThread(int slab, int d_inner) : group(threadIdx.x % 4), slab(slab) {
    const int pair = slab * 8 + static_cast<int>(threadIdx.x % 32 / 4), pairs = d_inner / 2;
    channel = 2 * min(pair, pairs - 1) + group % 2;
    exists = pair < pairs;
  }
  __device__ int own(int l) const { return l == 0 ? channel : channel ^ 1; }
  __device__ int first_step() const { return group / 2 * 2; }  // of the two steps of a quad it keeps
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

template <int S>
__device__ void load_states(float (&to)[2][S], const float* from, const ScanThread& thread) {
#pragma unroll
  for (int l = 0; l < 2; ++l)
#pragma unroll
    for (int i = 0; i < S; ++i) to[l][i] = from[thread.own(l) * 4 * S + thread.group * S + i];
}

template <int S>
__device__ void store_states(float* to, const float (&from)[2][S], const ScanThread& thread) {
  if (!thread.exists) return;
#pragma unroll
  for (int l = 0; l < 2; ++l)
#pragma unroll
    for (int i = 0; i < S; ++i) to[thread.own(l) * 4 * S + thread.group * S + i] = from[l][i];
}

/// The states of a slab before a quad of steps, as the forward pass leaves them for the backward pass: (state
/// of the thread, lane, channel of the pair).
template <int S>
__device__ void save_checkpoint(float* to, const float (&state)[2][S]) {
#pragma unroll
  for (int i = 0; i < S; ++i)
    __stcg(reinterpret_cast<float2*>(to) + 32 * i + threadIdx.x % 32, make_float2(state[0][i], state[1][i]));
}
template <int S>
__device__ void load_checkpoint(float2 (&state)[S], const float* from) {
#pragma unroll
  for (int i = 0; i < S; ++i)
    state[i] = __ldcg(reinterpret_cast<const float2*>(from) + 32 * i + threadIdx.x % 32);
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

/// Whether a kernel's variant was compiled for these sizes.
template <class Kernel>
bool suits(const Variant<Kernel, MambaSizes>& variant, const MambaSizes& sizes) {
  return variant.units == sizes.states_per_thread &&
         (variant.d_model == 0 || variant.d_model == sizes.d_model) &&
         (variant.d_state == 0 || variant.d_state == sizes.d_state);
}

/// log₂e · A = −log₂e · exp(A_log), (d_inner, padded_state); 0 where there is no state.
__device__ inline void load_decay(float* to, const float* A_log, const MambaSizes& sizes) {
  const int padded = sizes.padded_state();
  for (int i = threadIdx.x; i < sizes.state_count(); i += blockDim.x) {
    const int channel = i / padded, n = i % padded;
    to[i] = n < sizes.d_state ? -log2_e * expf(A_log[channel * sizes.d_state + n]) : 0;
  }
}

/// The state of a sequence as the network's interface has it, for one layer: the last three x (3, d_inner),
/// then s (d_state, d_inner).
struct StateOfLayer {
  float* window;
  float* states;

  template <class T>
  __host__ __device__ static StateOfLayer of(T* state, int sequence, int layer, int layers,
                                             const MambaSizes& sizes) {
    const size_t size = static_cast<size_t>(3 + sizes.d_state) * sizes.d_inner;
    float* const start = const_cast<float*>(state) + (static_cast<size_t>(sequence) * layers + layer) * size;
    return {start, start + 3 * sizes.d_inner};
  }
};

/// Copies between s (d_state, d_inner) and the scan's own order (d_inner, padded_state).
__device__ inline void import_states(float* to, const float* from, const MambaSizes& sizes) {
  const int padded = sizes.padded_state();
  for (int i = threadIdx.x; i < sizes.state_count(); i += blockDim.x)
    to[i] = from && i % padded < sizes.d_state ? from[i % padded * sizes.d_inner + i / padded] : 0;
}
__device__ inline void export_states(float* to, const float* from, const MambaSizes& sizes) {
  for (int i = threadIdx.x; i < sizes.d_state * sizes.d_inner; i += blockDim.x)
    to[i] = from[i % sizes.d_inner * sizes.padded_state() + i / sizes.d_inner];
}

}  // namespace mac::cuda
