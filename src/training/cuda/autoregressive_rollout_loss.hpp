// The rollout loss in autoregressive form: step s of chain t follows X_0..X_t, z(t,1), ..., z(t,s) with a memory of its
// own. Step 0 reads the data: in one pass of the general path, which leaves the memory after every state, or one state of
// all windows after the other. Who takes the steps after it, derives.
#pragma once

#include <optional>

#include "network/cuda/general/general_network.hpp"
#include "training/cuda/rollout_loss.hpp"

namespace mac::cuda {

class AutoregressiveRolloutLoss : public DeviceRolloutLoss {
 public:
  /// Of the reading, and of the steps after it if they are others.
  std::string kernels() const final;

 protected:
  AutoregressiveRolloutLoss(const StagePlan& stage, const LossContext& context, SampleShape sample,
                            const NetworkShape& shape, std::size_t models, std::size_t bytes_of_window,
                            Kernels kernels = Kernels::fastest);

  virtual std::string kernels_of_steps() const = 0;
  /// Steps 1..steps-1 of all chains, from z(1), y(0) and memory_; errors are added to errors_.
  virtual void later_steps(const float* parameters, cudaStream_t stream) = 0;
  /// Their gradient: of z(1) in d_z_ and, through the network's input, d_x_; of y(0) in later_; of memory_ in
  /// d_memory_. The parameters' is added to `gradient`, or overwrites it.
  virtual void later_steps_back(const float* parameters, float* gradient, bool add, cudaStream_t stream) = 0;

  std::size_t d_in() const { return network_.shape().d_in; }
  std::size_t d_out() const { return network_.shape().d_out; }
  std::size_t state() const { return network_.shape().state_size(); }
  std::size_t chains_of_model() const { return static_cast<std::size_t>(problem_.chains_of_model()); }

  DeviceNetwork network_;                 // of all models
  DeviceArray<float> memory_, d_memory_;  // (chain, state): after step 0
  float* next_x_ = nullptr;               // (chain, d): gets the network's input after step 0, if not null

 private:
  void forward(const float* parameters, cudaStream_t stream) final;
  void backward(const float* parameters, float* gradient, bool add, cudaStream_t stream) final;
  void read(const float* parameters, cudaStream_t stream);
  void read_back(const float* parameters, float* gradient, bool add, cudaStream_t stream);
  void read_at_once(const float* parameters, cudaStream_t stream);
  void read_back_at_once(const float* parameters, float* gradient, bool add, cudaStream_t stream);
  const float* before(std::size_t model, std::size_t t) const;

  std::size_t starts_, at_once_;
  // Where all states are read in one pass: arrays (model, window, start, ·).
  std::optional<GeneralNetwork<float>> reader_;
  DeviceTape reading_;
  DeviceArray<float> x_of_windows_, y_of_windows_;
  // Where they are read one after the other.
  std::optional<DeviceNetwork> one_;  // model at a time, where states of several chains of a window are read
  DeviceArray<float> d_before_;       // (window, state)
  std::vector<DeviceTape> tapes_;     // (model, start)
};

/// What a window takes in reading, in bytes.
std::size_t reading_bytes(const NetworkShape& shape, std::size_t starts);

// The steps after the first: in one launch each way, for few chains, or one after the other.
std::unique_ptr<DeviceLoss> make_chain_rollout_loss(const StagePlan& stage, const LossContext& context,
                                                    SampleShape sample, const NetworkShape& shape,
                                                    std::size_t models);
std::unique_ptr<DeviceLoss> make_stepwise_rollout_loss(const StagePlan& stage, const LossContext& context,
                                                       SampleShape sample, const NetworkShape& shape,
                                                       std::size_t models);

}  // namespace mac::cuda
