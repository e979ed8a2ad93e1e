// The network on the device: arrays are device memory, work is queued on a stream, nothing waits for the
// host.
//
// Several models of one shape run at once, each on its own batch: arrays have a leading (model) dimension,
// and the sequences of all models are numbered through, (model, sample).
#pragma once

#include <mac/network.hpp>

#include "network/cuda/device_blocks.hpp"
#include "network/cuda/input_output.hpp"

namespace mac::cuda {

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
  InputOutputProblem input_output(const float* parameters, SequenceDims dims) const;
  BlocksProblem blocks(const LaunchPlan& plan, const float* parameters, SequenceDims dims,
                       const float* initial_state, DeviceTape* tape, cudaStream_t stream);
  std::size_t quads_in_memory(SequenceDims dims) const;
  std::size_t h_size(SequenceDims dims) const;
  Groups groups(SequenceDims dims, const LaunchPlan& plan) const;
  int parts_of_layer(SequenceDims dims) const;

  NetworkShape shape_;
  ParameterLayout layout_;
  std::size_t models_;
  std::size_t first_block_;
  std::size_t block_size_;  // parameters of a block
  std::unique_ptr<DeviceBlocks> blocks_;
  DeviceArray<float> h_;  // of forward passes without a tape
  DeviceArray<float> d_h_;
  DeviceArray<float> partials_;
  DeviceArray<int> counters_;
};

}  // namespace mac::cuda
