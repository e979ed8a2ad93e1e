// What the GRU kernels are told beyond BlocksProblem: sizes, and where the parameters lie.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <optional>

#include "network/cuda/blocks_problem.hpp"

namespace mac::cuda {

struct GruSizes {
  int d_model;

  /// Rows of the tape: the factors a_r, a_z, a_q, a_n and z of the backward pass (gru_backward.cu), and the
  /// hidden state before the step.
  __host__ __device__ int tape_rows() const { return 6 * d_model; }
};
inline constexpr int largest_gru = 64;  // units: the recurrent weights live in registers

/// Offsets within the parameters of one block of the network (layer norm and GRU).
struct GruOffsets {
  int norm_weight, norm_bias, input_weight, hidden_weight, input_bias, hidden_bias;
  int size;
};

/// Both passes.
struct GruProblem : BlocksProblem {
  GruSizes sizes;
  GruOffsets offsets;

  __host__ __device__ int steps(int) const { return time; }  // of a sequence of a model
};

struct GruForward : GruProblem {
  float* final_state;  // or null
};

struct GruBackward : GruProblem, BlocksGradients {};

/// The launches that suit the device; none if the network does not fit its shared memory.
std::optional<LaunchPlan> plan_gru_forward(const GruSizes& sizes, const SharedMemory& memory);
std::optional<LaunchPlan> plan_gru_backward(const GruSizes& sizes, const SharedMemory& memory);

void launch_gru_forward(const GruForward& problem, const LaunchPlan& plan, cudaStream_t stream);
void launch_gru_backward(const GruBackward& problem, const LaunchPlan& plan, cudaStream_t stream);

}  // namespace mac::cuda
