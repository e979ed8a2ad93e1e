// The rollout loss in sequence form: step s reads the s-step predictions of a window as one sequence. Network passes
// and coupled steps take turns on one stream.
#include "training/cuda/rollout_loss.hpp"

namespace mac::cuda {

namespace {

std::size_t steps_of(const StagePlan& stage) {
  return stage.loss == LossKind::step ? 1 : stage.rollout_steps;
}

class SequenceRolloutLoss final : public DeviceRolloutLoss {
 public:
  SequenceRolloutLoss(const StagePlan& stage, const LossContext& context, SampleShape sample,
                      const NetworkShape& shape, std::size_t models)
      : DeviceRolloutLoss(
            stage, context, sample, shape, models, steps_of(stage),
            DeviceNetwork(shape, 1).tape_bytes({1, sample.states - steps_of(stage)}) * steps_of(stage)),
        network_(shape, models),
        dims_{windows_of_model(), sample.states - steps_},
        tapes_(steps_),
        x_(steps_) {
    for (std::size_t s = 1; s < steps_; ++s) x_[s].reserve(chains() * shape.d_in);
  }

  std::string kernels() const override { return network_.kernels(); }

 private:
  float* x(std::size_t s) const { return s == 0 ? first_x() : x_[s].data(); }

  void forward(const float* parameters, cudaStream_t stream) override {
    for (std::size_t s = 0; s < steps_; ++s) {
      network_.forward(parameters, dims_, x(s), y(s), nullptr, nullptr, &tapes_[s], stream);
      launch_coupled_step(equations_, problem_, at(s), z(s + 1), s + 1 < steps_ ? x(s + 1) : nullptr,
                          errors_.data(), stream);
    }
  }

  void backward(const float* parameters, float* gradient, bool add, cudaStream_t stream) override {
    for (std::size_t s = steps_; s-- > 0;) {
      const bool last = s + 1 == steps_;
      launch_coupled_adjoint(equations_, problem_, at(s), z(s + 1), slopes_.data(),
                             last ? nullptr : d_z_.data(), d_x_.data(), d_z_before_.data(), d_own_.data(),
                             d_previous_.data(), stream);
      launch_output_gradient(problem_, static_cast<int>(s), d_own_.data(), last ? nullptr : later_.data(),
                             d_previous_.data(), d_y_.data(), stream);
      network_.backward(parameters, dims_, x(s), nullptr, d_y_.data(), tapes_[s],
                        {.parameters = gradient, .x = s > 0 ? d_x_.data() : nullptr}, add || !last, stream);
      std::swap(d_z_, d_z_before_);
      std::swap(later_, d_previous_);
    }
  }

  DeviceNetwork network_;
  SequenceDims dims_;
  std::vector<DeviceTape> tapes_;
  std::vector<DeviceArray<float>> x_;  // [s] (chain, d), from s = 1 on
};

}  // namespace

std::unique_ptr<DeviceLoss> make_sequence_rollout_loss(const StagePlan& stage, const LossContext& context,
                                                       SampleShape sample, const NetworkShape& shape,
                                                       std::size_t models) {
  return std::make_unique<SequenceRolloutLoss>(stage, context, sample, shape, models);
}

}  // namespace mac::cuda
