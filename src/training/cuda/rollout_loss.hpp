// What both forms of the rollout loss on the device share: the windows, their errors and the loss they make.
#pragma once

#include "training/cuda/coupled_chains.hpp"
#include "training/cuda/device_loss.hpp"

namespace mac::cuda {

/// The counterpart of training/rollout_loss.cpp.
class DeviceRolloutLoss : public DeviceLoss {
 public:
  void evaluate(const float* parameters, const BatchSource& source, const Sample* samples, double noise,
                float* gradient, double* losses, cudaStream_t stream) final;

 protected:
  /// `steps` is K; bytes_of_window is what a window of one model takes in tapes and memories.
  DeviceRolloutLoss(const StagePlan& stage, const LossContext& context, SampleShape sample,
                    const NetworkShape& shape, std::size_t models, std::size_t steps,
                    std::size_t bytes_of_window);

  /// Steps 1.. of all chains, from z, x of step 0; leaves errors().
  virtual void forward(const float* parameters, cudaStream_t stream) = 0;
  /// Their gradient from slopes(); the parameters' is added to `gradient` (model, parameters), or overwrites it.
  virtual void backward(const float* parameters, float* gradient, bool add, cudaStream_t stream) = 0;

  std::size_t chains() const { return static_cast<std::size_t>(problem_.chains()); }
  std::size_t windows_of_model() const { return group_; }
  double* z(std::size_t s) const { return z_.data() + s * chains() * static_cast<std::size_t>(problem_.d); }
  float* y(std::size_t s) const { return y_.data() + s * chains() * static_cast<std::size_t>(problem_.c); }
  CoupledArrays at(std::size_t s) const {
    return {static_cast<int>(s), z(s), y(s), s > 0 ? y(s - 1) : nullptr, truth_.data(), given_.data()};
  }
  float* first_x() const { return x_.data(); }  // (chain, d_in): the network's input in step 0

  ReducedEquations equations_;
  std::size_t steps_, models_;
  RolloutProblem problem_{};
  DeviceArray<double> truth_;
  DeviceArray<float> given_;                        // (window, state, given)
  DeviceArray<double> errors_, slopes_;             // (chain, d), (window, d)
  DeviceArray<double> d_z_, d_z_before_;            // (chain, d)
  DeviceArray<double> d_own_, d_previous_, later_;  // (chain, c)
  DeviceArray<float> d_x_, d_y_;                    // (chain, d_in), (chain, c)

 private:
  WindowLosses windows_from(std::size_t first) const;

  std::size_t batch_, states_, group_;
  bool relative_;
  DeviceArray<double> z_;               // (step, chain, d)
  DeviceArray<float> x_, y_;            // (chain, d_in), (step, chain, c)
  DeviceArray<int> groups_;             // of variables that a symmetry mixes
  DeviceArray<double> losses_, sizes_;  // (model, batch, d)
};

std::unique_ptr<DeviceLoss> make_sequence_rollout_loss(const StagePlan& stage, const LossContext& context,
                                                       SampleShape sample, const NetworkShape& shape,
                                                       std::size_t models);
std::unique_ptr<DeviceLoss> make_autoregressive_rollout_loss(const StagePlan& stage,
                                                             const LossContext& context, SampleShape sample,
                                                             const NetworkShape& shape, std::size_t models);

}  // namespace mac::cuda
