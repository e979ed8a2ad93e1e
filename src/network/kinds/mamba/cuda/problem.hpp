// What the Mamba kernels are told beyond BlocksProblem: sizes, where the parameters lie, and what they keep.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <optional>

#include "network/cuda/blocks_problem.hpp"

namespace mac::cuda {

struct MambaSizes {
  int d_model, d_inner, d_state, rank;
  int states_per_thread;  // four threads share the states of a channel; missing states have B = C = 0

  __host__ __device__ int padded_state() const { return 4 * states_per_thread; }
  /// Rows of x_proj's output: dt, then B and C padded.
  __host__ __device__ int projected() const { return rank + 2 * padded_state(); }
  /// Rows of the tape: x, z, x_proj's output.
  __host__ __device__ int tape_rows() const { return 2 * d_inner + projected(); }
  __host__ __device__ int state_count() const { return d_inner * padded_state(); }
  /// Floats of a layer's state in the network's interface, see StateOfLayer.
  __host__ __device__ int layer_state() const { return (3 + d_state) * d_inner; }
  /// Slabs of 16 channels, which a warp scans.
  __host__ __device__ int slabs() const { return (d_inner + 15) / 16; }
  __host__ __device__ int checkpoint_size() const { return slabs() * 64 * states_per_thread; }
};
/// The same with the number of states a thread takes known at compile time.
template <int S>
struct AnyMambaSizes : MambaSizes {
  static constexpr bool fixed = false;
  static constexpr int states_per_thread = S;
  __host__ __device__ explicit AnyMambaSizes(const MambaSizes& sizes) : MambaSizes(sizes) {}
};

/// All sizes known at compile time: loops unroll and addresses are constants. For the networks that are
/// trained most.
template <int D_MODEL, int D_STATE>
struct FixedMambaSizes {
  static constexpr bool fixed = true;
  static constexpr int d_model = D_MODEL, d_inner = 2 * D_MODEL, d_state = D_STATE,
                       rank = (D_MODEL + 15) / 16;
  static constexpr int states_per_thread = (D_STATE + 3) / 4;

  __host__ __device__ explicit constexpr FixedMambaSizes(const MambaSizes&) {}
  static constexpr __host__ __device__ int padded_state() { return 4 * states_per_thread; }
  static constexpr __host__ __device__ int projected() { return rank + 2 * padded_state(); }
  static constexpr __host__ __device__ int tape_rows() { return 2 * d_inner + projected(); }
  static constexpr __host__ __device__ int state_count() { return d_inner * padded_state(); }
  static constexpr __host__ __device__ int slabs() { return (d_inner + 15) / 16; }
  static constexpr __host__ __device__ int checkpoint_size() { return slabs() * 64 * states_per_thread; }
};

/// Offsets within the parameters of one block of the network (layer norm and Mamba).
struct MambaOffsets {
  int norm_weight, norm_bias, in_proj, conv_weight, conv_bias, x_proj, step_weight, step_bias, A_log, D,
      out_proj;
  int size;
};

/// Sequences that are segments of longer ones (mamba_segments.hpp): so many of each, of which the last may be
/// shorter than the others. One segment is the whole sequence.
struct Cut {
  int segments;
  int last_time;  // steps of the last
};

/// Both passes.
struct MambaProblem : BlocksProblem {
  MambaSizes sizes;
  MambaOffsets offsets;
  Cut cut;             // where the sequences are segments of longer ones
  float* checkpoints;  // (layer, sequence, quad, checkpoint_size): the states before a quad, or null

  /// Of a sequence of a model.
  __host__ __device__ int steps(int sequence) const {
    return (sequence + 1) % cut.segments == 0 ? cut.last_time : time;
  }
};

struct MambaForward : MambaProblem {
  float* final_state = nullptr;  // or null
  /// (sequence, d_inner): Σ_t Δ_t of each. If not null, this and the final states are all that is wanted.
  float* step_sums = nullptr;
};

struct MambaBackward : MambaProblem, BlocksGradients {
  float* gradients = nullptr;  // (model, group, layer, mamba_gradient_floats): sums, unless plan.shared_sums
};

/// The launches that suit the device; none if the network does not fit its shared memory.
std::optional<LaunchPlan> plan_mamba_forward(const MambaSizes& sizes, const SharedMemory& memory);
std::optional<LaunchPlan> plan_mamba_backward(const MambaSizes& sizes, const SharedMemory& memory);
std::size_t mamba_gradient_floats(const MambaSizes& sizes);

void launch_mamba_forward(const MambaForward& problem, const LaunchPlan& plan, cudaStream_t stream);
/// The states of d_initial_state alone, from zeros after each sequence instead of d_final_state, of a network
/// of one layer.
void launch_mamba_states_backward(const MambaBackward& problem, cudaStream_t stream);
void launch_mamba_backward(const MambaBackward& problem, const LaunchPlan& plan, cudaStream_t stream);

}  // namespace mac::cuda
