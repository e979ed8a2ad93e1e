// What the GRU kernels are told: sizes, where the parameters lie, and the arrays in device memory.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <optional>

#include "network/cuda/plan.hpp"

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

/// Both passes. Sequences are numbered through all models: model · batch + sample.
struct GruProblem {
  GruSizes sizes;
  GruOffsets offsets;
  int models, batch, layers;
  Groups groups;            // of a model's sequences
  int time, quads;          // quads = ceil(time / 4)
  const float* parameters;  // (model, parameter_count)
  std::size_t parameter_count;
  std::size_t first_block;     // offset of blocks.0 in the parameters
  float* h;                    // (layer + 1 or 1, sequence, quad, d_model, 4): the residual stream
  std::size_t h_layer_stride;  // 0: one copy, overwritten by each layer
  float* tape;                 // (layer, sequence, quad, tape_rows, 4), or null
  const float* initial_state;  // (sequence, layer, d_model), or null
  int* counters;               // of the pipeline, zero: the next ticket, then (model, group, layer)

  __host__ __device__ int steps(int) const { return time; }  // of a sequence of a model
};

struct GruForward : GruProblem {
  float* final_state;  // or null
};

struct GruBackward : GruProblem {
  float* d_h = nullptr;  // (sequence, quad, d_model, 4): gradient of the last layer's output, then of h
  const float* d_final_state = nullptr;  // or null
  float* d_initial_state = nullptr;      // or null
  float* partials = nullptr;             // (model, group, layer, offsets.size): each block's gradients
};

/// The launches that suit the device; none if the network does not fit its shared memory.
std::optional<LaunchPlan> plan_gru_forward(const GruSizes& sizes, const SharedMemory& memory);
std::optional<LaunchPlan> plan_gru_backward(const GruSizes& sizes, const SharedMemory& memory);

void launch_gru_forward(const GruForward& problem, const LaunchPlan& plan, cudaStream_t stream);
void launch_gru_backward(const GruBackward& problem, const LaunchPlan& plan, cudaStream_t stream);

}  // namespace mac::cuda
