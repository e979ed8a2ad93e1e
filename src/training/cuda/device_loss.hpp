// Losses on the device: the counterparts of training/losses.hpp, for several models at once.
#pragma once

#include <string>

#include "network/cuda/device_network.hpp"
#include "training/cuda/kernels.hpp"
#include "training/losses.hpp"

namespace mac::cuda {

/// Indices as kernels take them.
template <class From>
std::vector<int> integers(const From& values) {
  return std::vector<int>(values.begin(), values.end());
}

class DeviceLoss {
 public:
  virtual ~DeviceLoss() = default;

  /// Draws the batches of all models (samples: (model, batch)) from the source, overwrites gradient (model,
  /// parameters) and losses (model). Queued on the stream.
  virtual void evaluate(const float* parameters, const BatchSource& source, const Sample* samples,
                        double noise, float* gradient, double* losses, cudaStream_t stream) = 0;
  /// Which ones it takes, for those who measure.
  virtual std::string kernels() const = 0;
};

/// The loss of a stage for `models` batches of samples of the given shape.
std::unique_ptr<DeviceLoss> make_device_loss(const StagePlan& stage, const LossContext& context,
                                             SampleShape sample, const NetworkShape& shape,
                                             std::size_t models);

// The losses themselves.
std::unique_ptr<DeviceLoss> make_device_closure_loss(const StagePlan& stage, const LossContext& context,
                                                     SampleShape sample, const NetworkShape& shape,
                                                     std::size_t models);
/// For systems with reduced_equations().
std::unique_ptr<DeviceLoss> make_device_rollout_loss(const StagePlan& stage, const LossContext& context,
                                                     SampleShape sample, const NetworkShape& shape,
                                                     std::size_t models);

}  // namespace mac::cuda
