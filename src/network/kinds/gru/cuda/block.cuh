// What the blocks of both passes of the GRU share. One block is one stage of the pipeline (pipeline.cuh).
// Some of its warps run the recurrence, with the recurrent weights in registers, and do nothing else; the
// others, the helpers, do what does not depend on the step before, a chunk ahead or behind.
#pragma once

#include "network/cuda/pipeline.cuh"
#include "network/cuda/shared_layout.cuh"
#include "network/cuda/tensor_cores.cuh"
#include "network/kinds/gru/cuda/problem.hpp"

namespace mac::cuda {

/// The threads of a block by what they do: the first 32 RECURRENT run the recurrence.
template <int RECURRENT, int WARPS>
struct GruRoles {
  int thread = static_cast<int>(threadIdx.x);

  __device__ bool recurrent() const { return thread < 32 * RECURRENT; }
  __device__ Team helpers() const { return {thread - 32 * RECURRENT, 32 * (WARPS - RECURRENT)}; }
  __device__ void meet_all() const { meet<Meeting::all>(32 * WARPS); }
  __device__ void meet_helpers() const { meet<Meeting::helpers>(32 * (WARPS - RECURRENT)); }
  __device__ void meet_recurrent() const { meet<Meeting::workers>(32 * RECURRENT); }
};

template <class Kernel>
bool suits(const Variant<Kernel, GruSizes>& variant, const GruSizes& sizes) {
  return variant.d_model == 0 ? sizes.d_model <= variant.units : sizes.d_model == variant.d_model;
}

struct GruBlock {
  const GruProblem& problem;
  Stage stage;

  __device__ GruBlock(const GruProblem& p, const Stage& s) : problem(p), stage(s) {}

  __device__ const float* parameters() const {
    return problem.parameters + stage.model * problem.parameter_count + problem.first_block +
           static_cast<size_t>(stage.layer) * problem.offsets.size;
  }
  __device__ TileView tensor(const float* data, size_t layer_stride, int layer, int rows,
                             int first_quad) const {
    return {const_cast<float*>(data) + layer * layer_stride +
                (static_cast<size_t>(stage.sequence) * problem.quads + first_quad) * rows * 4,
            rows, stage.quads - first_quad};
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
  /// Of states (sequence, layer, d_model), the layer's in the sequence that a quad of the run belongs to.
  template <Run RUN, class T>
  __device__ T* state(T* states, int quad) const {
    const size_t sequence = static_cast<size_t>(sequence_of<RUN>(problem, stage, quad));
    return states + (sequence * problem.layers + stage.layer) * problem.sizes.d_model;
  }
};

}  // namespace mac::cuda
