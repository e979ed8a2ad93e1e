// The later steps of an autoregressive rollout loss one after the other: the engine's kernels take all chains a step on,
// then the coupled step does. Of many chains these are the kernels of the general path.
#include "training/cuda/autoregressive_rollout_loss.hpp"

namespace mac::cuda {

namespace {

Kernels kernels_for(const StagePlan& stage, SampleShape sample) {
  return kernels_for_single_steps(stage.batch * (sample.states - stage.rollout_steps));
}

std::size_t bytes_of_window(const StagePlan& stage, SampleShape sample, const NetworkShape& shape) {
  const std::size_t steps = stage.rollout_steps, starts = sample.states - steps;
  return steps * (DeviceNetwork(shape, 1, kernels_for(stage, sample)).tape_bytes({starts, 1}) +
                  starts * shape.state_size() * sizeof(float));
}

class StepwiseRolloutLoss final : public AutoregressiveRolloutLoss {
 public:
  StepwiseRolloutLoss(const StagePlan& stage, const LossContext& context, SampleShape sample,
                      const NetworkShape& shape, std::size_t models)
      : AutoregressiveRolloutLoss(stage, context, sample, shape, models,
                                  bytes_of_window(stage, sample, shape), kernels_for(stage, sample)),
        all_{chains_of_model(), 1},
        tapes_(steps_),
        memories_(steps_),
        x_(steps_) {
    for (std::size_t s = 1; s < steps_; ++s) {
      memories_[s].reserve(chains() * state());
      x_[s].reserve(chains() * d_in());
    }
    d_after_.reserve(chains() * state());
    if (steps_ > 1) next_x_ = x_[1].data();
  }

 private:
  std::string kernels_of_steps() const override { return network_.kernels(); }

  float* memory(std::size_t s) const { return s == 0 ? memory_.data() : memories_[s].data(); }

  void later_steps(const float* parameters, cudaStream_t stream) override {
    for (std::size_t s = 1; s < steps_; ++s) {
      network_.forward(parameters, all_, x_[s].data(), y(s), memory(s - 1), memory(s), &tapes_[s], stream);
      launch_coupled_step(equations_, problem_, at(s), z(s + 1), s + 1 < steps_ ? x_[s + 1].data() : nullptr,
                          errors_.data(), stream);
    }
  }

  void later_steps_back(const float* parameters, float* gradient, bool add, cudaStream_t stream) override {
    for (std::size_t s = steps_; s-- > 1;) {
      const bool last = s + 1 == steps_;
      launch_coupled_adjoint(equations_, problem_, at(s), z(s + 1), slopes_.data(),
                             last ? nullptr : d_z_.data(), d_x_.data(), d_z_before_.data(), d_own_.data(),
                             d_previous_.data(), stream);
      launch_output_gradient(problem_, static_cast<int>(s), d_own_.data(), last ? nullptr : later_.data(),
                             d_previous_.data(), d_y_.data(), stream);
      network_.backward(parameters, all_, x_[s].data(), memory(s - 1), d_y_.data(), tapes_[s],
                        {gradient, d_x_.data(), d_memory_.data(), last ? nullptr : d_after_.data()},
                        add || !last, stream);
      std::swap(d_z_, d_z_before_);
      std::swap(later_, d_previous_);
      if (s > 1) std::swap(d_memory_, d_after_);
    }
  }

  SequenceDims all_;
  std::vector<DeviceTape> tapes_;                 // [s], from s = 1 on, as ...
  std::vector<DeviceArray<float>> memories_, x_;  // ... (chain, state) after step s, and (chain, d)
  DeviceArray<float> d_after_;                    // (chain, state)
};

}  // namespace

std::unique_ptr<DeviceLoss> make_stepwise_rollout_loss(const StagePlan& stage, const LossContext& context,
                                                       SampleShape sample, const NetworkShape& shape,
                                                       std::size_t models) {
  return std::make_unique<StepwiseRolloutLoss>(stage, context, sample, shape, models);
}

}  // namespace mac::cuda
