// A way to compute the network on the device: one of those that DeviceNetwork chooses among.
#pragma once

#include <mac/network.hpp>

#include "network/cuda/device_blocks.hpp"
#include "network/cuda_engine.hpp"

namespace mac::cuda {

/// The members are those of DeviceNetwork.
template <class T>
class NetworkPath {
 public:
  virtual ~NetworkPath() = default;

  virtual std::size_t tape_bytes(SequenceDims dims) const = 0;
  virtual void forward(const T* parameters, SequenceDims dims, const T* x, T* y, const T* initial_state,
                       T* final_state, DeviceTape* tape, cudaStream_t stream) = 0;
  virtual void backward(const T* parameters, SequenceDims dims, const T* x, const T* initial_state,
                        const T* d_y, DeviceTape& tape, const Gradients<T>& gradients, bool add,
                        cudaStream_t stream) = 0;
};

}  // namespace mac::cuda
