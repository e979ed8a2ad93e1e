// A way to compute the network on the device: one of those that DeviceNetwork chooses among.
#pragma once

#include <mac/network.hpp>

#include "network/cuda/device_blocks.hpp"
#include "network/cuda_engine.hpp"

namespace mac::cuda {

/// The members are those of DeviceNetwork.
class NetworkPath {
 public:
  virtual ~NetworkPath() = default;

  virtual std::size_t tape_bytes(SequenceDims dims) const = 0;
  virtual void forward(const float* parameters, SequenceDims dims, const float* x, float* y,
                       const float* initial_state, float* final_state, DeviceTape* tape,
                       cudaStream_t stream) = 0;
  virtual void backward(const float* parameters, SequenceDims dims, const float* x,
                        const float* initial_state, const float* d_y, DeviceTape& tape,
                        const Gradients<float>& gradients, bool add, cudaStream_t stream) = 0;
};

}  // namespace mac::cuda
