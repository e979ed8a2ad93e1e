// The later steps of an autoregressive rollout loss in one launch each way (chain_rollout.hpp).
#include "training/cuda/autoregressive_rollout_loss.hpp"
#include "training/cuda/chain_rollout.hpp"

namespace mac::cuda {

namespace {

std::size_t bytes_of_window(const StagePlan& stage, SampleShape sample, const NetworkShape& shape) {
  const std::size_t steps = stage.rollout_steps, starts = sample.states - steps;
  const std::size_t of_steps = steps > 1 ? starts * tape_numbers(packed_sizes(shape), steps) * sizeof(float) +
                                               DeviceNetwork(shape, 1).tape_bytes({starts, steps - 1})
                                         : 0;
  return reading_bytes(shape, starts) + of_steps;
}

class ChainRolloutLoss final : public AutoregressiveRolloutLoss {
 public:
  ChainRolloutLoss(const StagePlan& stage, const LossContext& context, SampleShape sample,
                   const NetworkShape& shape, std::size_t models)
      : AutoregressiveRolloutLoss(stage, context, sample, shape, models,
                                  bytes_of_window(stage, sample, shape)),
        sizes_(packed_sizes(shape)),
        launch_(choose_chain_launch(sizes_, shared_memory(), multiprocessors()).value()) {
    if (steps_ == 1) return;
    tape_.reserve(chains() * tape_numbers(sizes_, steps_));
    x_.reserve(chains() * (steps_ - 1) * d_in());
    for (auto* array : {&d_y_of_steps_, &y_again_}) array->reserve(chains() * (steps_ - 1) * d_out());
    upload_now(forward_places_, packing(shape, Reading::forward));
    upload_now(backward_places_, packing(shape, Reading::backward));
    packed_.reserve(models * forward_places_.size());
  }

 private:
  std::string kernels_of_steps() const override { return "chain"; }

  ChainRollout chains_with(const float* parameters, const DeviceArray<int>& places,
                           cudaStream_t stream) const {
    launch_pack(parameters, network_.parameter_count(), places.data(), static_cast<int>(places.size()),
                static_cast<int>(models_), packed_.data(), stream);
    return {.problem = problem_,
            .network = sizes_,
            .steps = static_cast<int>(steps_),
            .weights = packed_.data(),
            .z = z(0),
            .y = y(0),
            .x = x_.data(),
            .memory = memory_.data(),
            .truth = truth_.data(),
            .errors = errors_.data(),
            .tape = tape_.data(),
            .slopes = slopes_.data(),
            .d_z = d_z_.data(),
            .d_x = d_x_.data(),
            .d_previous = later_.data(),
            .d_y = d_y_of_steps_.data(),
            .d_memory = d_memory_.data()};
  }

  void later_steps(const float* parameters, cudaStream_t stream) override {
    launch_chains(equations_, chains_with(parameters, forward_places_, stream), launch_, stream);
  }

  void later_steps_back(const float* parameters, float* gradient, bool add, cudaStream_t stream) override {
    // The chains, launched first, keep a multiprocessor each; the engine's forward pass over them takes others meanwhile.
    const cudaStream_t beside = beside_.leave(stream);
    launch_chains_back(equations_, chains_with(parameters, backward_places_, stream), launch_, stream);
    const SequenceDims sequences{chains_of_model(), steps_ - 1};
    network_.forward(parameters, sequences, x_.data(), y_again_.data(), memory_.data(), nullptr,
                     &sequence_tape_, beside);
    beside_.join(stream);
    network_.backward(parameters, sequences, x_.data(), memory_.data(), d_y_of_steps_.data(), sequence_tape_,
                      {.parameters = gradient}, add, stream);
  }

  PackedSizes sizes_;
  ChainLaunch launch_;
  DeviceTape sequence_tape_;
  SideStream beside_;
  DeviceArray<float> tape_, packed_;
  DeviceArray<int> forward_places_, backward_places_;
  DeviceArray<float> x_, d_y_of_steps_, y_again_;  // (chain, step, ·)
};

}  // namespace

std::unique_ptr<DeviceLoss> make_chain_rollout_loss(const StagePlan& stage, const LossContext& context,
                                                    SampleShape sample, const NetworkShape& shape,
                                                    std::size_t models) {
  return std::make_unique<ChainRolloutLoss>(stage, context, sample, shape, models);
}

}  // namespace mac::cuda
