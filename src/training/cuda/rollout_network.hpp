// training/rollout_network.hpp on the device: K predictions in a row for many windows, and their gradient.
#pragma once

#include <memory>

#include "network/cuda/device_network.hpp"
#include "training/losses.hpp"

namespace mac::cuda {

class DeviceRolloutNetwork {
 public:
  virtual ~DeviceRolloutNetwork() = default;

  virtual std::size_t models() const = 0;  // that it takes at once
  /// x (chains, d_in) -> y (chains, d_out) of step s = 0, 1, ..., K-1 ...
  virtual void forward(const float* parameters, std::size_t s, const float* x, float* y,
                       cudaStream_t stream) = 0;
  /// ... then for s = K-1, ..., 0 with the same x; gradient is added to if `add`, else overwritten.
  virtual void backward(const float* parameters, std::size_t s, const float* x, const float* d_y,
                        float* gradient, bool add, float* d_x, cudaStream_t stream) = 0;
};

/// For `windows` windows of each model with `starts` starting states each, K = `steps`.
std::unique_ptr<DeviceRolloutNetwork> make_device_rollout_network(RolloutForm form, const NetworkShape& shape,
                                                                  std::size_t models, std::size_t windows,
                                                                  std::size_t starts, std::size_t steps);

}  // namespace mac::cuda
