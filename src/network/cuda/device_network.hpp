// The network on the device: arrays are device memory, work is queued on a stream, nothing waits for the
// host.
//
// Several models of one shape run at once, each on its own batch: arrays have a leading (model) dimension,
// and the sequences of all models are numbered through, (model, sample).
#pragma once

#include <mac/network.hpp>

#include "network/cuda/device.hpp"
#include "network/cuda/ends.hpp"
#include "network/cuda/gru.hpp"
#include "network/cuda/mamba.hpp"
#include "network/cuda/mamba_segments.hpp"

namespace mac::cuda {

/// What a forward pass leaves on the device for its backward pass.
class DeviceTape final : public Tape {
 public:
  SequenceDims dims{};                // of the forward pass it holds
  DeviceArray<float> h;               // (layer + 1, sequence, quad, d_model, 4): the residual stream
  DeviceArray<float> activations;     // see MambaProblem::tape, GruProblem::tape
  DeviceArray<float> checkpoints;     // Mamba only
  DeviceArray<float> segment_states;  // see SegmentStates, of a pass in segments
};

class DeviceNetwork {
 public:
  DeviceNetwork(const NetworkShape& shape, std::size_t models);  // throws Error if it does not fit the device

  const NetworkShape& shape() const { return shape_; }
  std::size_t models() const { return models_; }
  std::size_t parameter_count() const { return layout_.size(); }
  std::size_t tape_bytes(SequenceDims dims) const;  // that a forward pass leaves, of one model

  /// As SequenceEngine::forward, with a leading model dimension.
  void forward(const float* parameters, SequenceDims dims, const float* x, float* y,
               const float* initial_state, float* final_state, DeviceTape* tape, cudaStream_t stream);

  /// As SequenceEngine::backward; the parameter gradients are added to only if `add` is set.
  void backward(const float* parameters, SequenceDims dims, const float* x, const float* initial_state,
                const float* d_y, DeviceTape& tape, const Gradients<float>& gradients, bool add,
                cudaStream_t stream);

 private:
  void plan_mamba();
  void plan_gru();
  EndsProblem ends(const float* parameters, SequenceDims dims) const;
  Segments segments(SequenceDims dims) const;
  std::size_t quads_in_memory(SequenceDims dims) const;
  std::size_t tape_quads(SequenceDims dims) const;
  std::size_t activations_per_quad() const;
  std::size_t checkpoints_per_quad() const;
  Groups groups(SequenceDims dims, const LaunchPlan& plan) const;
  template <class Problem>
  Problem blocks(const LaunchPlan& plan, const float* parameters, SequenceDims dims,
                 const float* initial_state, DeviceTape* tape, cudaStream_t stream);
  MambaProblem mamba(const LaunchPlan& plan, const float* parameters, SequenceDims dims,
                     const float* initial_state, DeviceTape* tape, cudaStream_t stream);
  GruProblem gru(const LaunchPlan& plan, const float* parameters, SequenceDims dims,
                 const float* initial_state, DeviceTape* tape, cudaStream_t stream);
  int parts_of_layer(SequenceDims dims) const;
  std::size_t border_size(SequenceDims dims) const;
  std::size_t segment_states_size(SequenceDims dims) const;
  SegmentStates segment_states(SequenceDims dims, DeviceArray<float>& memory) const;
  void launch(const MambaForward& problem, SequenceDims dims, DeviceTape* tape, cudaStream_t stream);
  void launch(MambaBackward problem, SequenceDims dims, DeviceTape& tape, cudaStream_t stream);
  std::size_t h_size(SequenceDims dims) const;

  NetworkShape shape_;
  ParameterLayout layout_;
  std::size_t models_;
  std::size_t first_block_;
  std::size_t block_size_;  // parameters of a block
  MambaSizes mamba_sizes_{};
  MambaOffsets mamba_offsets_{};
  GruSizes gru_sizes_{};
  GruOffsets gru_offsets_{};
  LaunchPlan forward_plan_{}, backward_plan_{};
  DeviceArray<float> h_;  // of forward passes without a tape
  DeviceArray<float> d_h_;
  DeviceArray<float> partials_;
  DeviceArray<float> gradient_sums_;  // see MambaBackward::gradients
  DeviceArray<int> counters_;
  DeviceArray<float> segment_states_;  // of forward passes without a tape
  DeviceArray<float> borders_;         // see forward_in_segments
};

}  // namespace mac::cuda
