// What the blocks of both passes of the GRU share. One block is one stage of the pipeline (pipeline.cuh) and
// works on one sequence; the first WARPS of its warps run the recurrence, a thread for each unit, with that
// unit's recurrent weights in registers.
#pragma once

#include "network/cuda/columns.cuh"
#include "network/cuda/gru.hpp"
#include "network/cuda/pipeline.cuh"
#include "network/cuda/shared_layout.cuh"

namespace mac::cuda {

/// Among the warps of the recurrence only.
template <int WARPS>
__device__ void recurrence_barrier() {
  if constexpr (WARPS == 1)
    __syncwarp();
  else
    asm volatile("bar.sync 1, %0;" ::"n"(32 * WARPS) : "memory");
}

struct GruBlock {
  const GruProblem& problem;
  Stage stage;
  int sequence;

  __device__ GruBlock(const GruProblem& p, const Stage& s)
      : problem(p), stage(s), sequence(s.model * p.batch + s.sample) {}

  __device__ const float* parameters() const {
    return problem.parameters + stage.model * problem.parameter_count + problem.first_block +
           static_cast<size_t>(stage.layer) * problem.offsets.size;
  }
  __device__ TileView tensor(const float* data, size_t layer_stride, int layer, int rows,
                             int first_quad) const {
    return {const_cast<float*>(data) + layer * layer_stride +
                (static_cast<size_t>(sequence) * problem.quads + first_quad) * rows * 4,
            rows, problem.quads - first_quad};
  }
  __device__ TileView h(int layer, int first_quad) const {
    return tensor(problem.h, problem.h_layer_stride, layer, problem.sizes.d_model, first_quad);
  }
  __device__ TileView tape(int first_quad) const {
    const int rows = problem.sizes.tape_rows();
    const size_t layer_stride =
        static_cast<size_t>(problem.models) * problem.batch * problem.quads * rows * 4;
    return tensor(problem.tape, layer_stride, stage.layer, rows, first_quad);
  }
  /// This block's share of states (sequence, layer, d_model).
  template <class T>
  __device__ T* state(T* states) const {
    return states + (static_cast<size_t>(sequence) * problem.layers + stage.layer) * problem.sizes.d_model;
  }
};

}  // namespace mac::cuda
