// The network by fused kernels: all of a block in one, with its weights in shared memory and registers. For the networks
// that have tuned kernels, and others up to some size. All models run at once; their sequences are numbered through,
// (model, sample).
#pragma once

#include "network/cuda/device_blocks.hpp"
#include "network/cuda/input_output.hpp"
#include "network/cuda/network_path.hpp"

namespace mac::cuda {

class FusedNetwork final : public NetworkPath<float> {
 public:
  FusedNetwork(const NetworkShape& shape, std::size_t models, std::unique_ptr<DeviceBlocks> blocks);

  std::size_t tape_bytes(SequenceDims dims) const override;

  void forward(const float* parameters, SequenceDims dims, const float* x, float* y,
               const float* initial_state, float* final_state, DeviceTape* tape,
               cudaStream_t stream) override;
  void backward(const float* parameters, SequenceDims dims, const float* x, const float* initial_state,
                const float* d_y, DeviceTape& tape, const Gradients<float>& gradients, bool add,
                cudaStream_t stream) override;

  /// Whether the kernels around the blocks fit the device.
  bool fits() const;

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
