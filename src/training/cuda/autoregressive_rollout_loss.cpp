// The rollout loss in autoregressive form: step s of chain t follows X_0..X_t, z(t,1), ..., z(t,s) with a memory of its
// own. Step 0 reads the data, one state of all windows after the other; the steps after it are one launch each way
// (chain_rollout.hpp), and a pass over the chains as sequences for the parameters.
#include "training/cuda/chain_rollout.hpp"
#include "training/cuda/rollout_loss.hpp"

namespace mac::cuda {

namespace {

/// What a window takes: its chains' tapes of both kinds and their memories.
std::size_t bytes_of_window(const StagePlan& stage, SampleShape sample, const NetworkShape& shape) {
  const std::size_t steps = stage.rollout_steps, starts = sample.states - steps;
  const DeviceNetwork network(shape, 1);
  const std::size_t of_steps =
      steps > 1 ? tape_numbers(packed_sizes(shape), static_cast<int>(starts), static_cast<int>(steps)) *
                          sizeof(float) +
                      network.tape_bytes({starts, steps - 1})
                : 0;
  return starts * (network.tape_bytes({1, 1}) + 4 * shape.state_size() * sizeof(float)) + of_steps;
}

class AutoregressiveRolloutLoss final : public DeviceRolloutLoss {
 public:
  AutoregressiveRolloutLoss(const StagePlan& stage, const LossContext& context, SampleShape sample,
                            const NetworkShape& shape, std::size_t models)
      : DeviceRolloutLoss(stage, context, sample, shape, models, stage.rollout_steps,
                          bytes_of_window(stage, sample, shape)),
        network_(shape, models),
        starts_(sample.states - steps_),
        sizes_(packed_sizes(shape)),
        reading_tapes_(starts_) {
    problem_.autoregressive = true;
    const int of_model = static_cast<int>(starts_ * windows_of_model());
    memory_.reserve(chains() * shape.state_size());
    d_memory_.reserve(chains() * shape.state_size());
    d_before_.reserve(run());
    if (steps_ == 1) return;
    const auto launch =
        choose_chain_launch(sizes_, static_cast<int>(models), of_model, shared_memory(), multiprocessors());
    if (!launch)
      throw Error("the network is too large for rollout losses on the CUDA device: use --device cpu");
    launch_ = *launch;
    tape_.reserve(models * tape_numbers(sizes_, of_model, static_cast<int>(steps_)));
    sequence_x_.reserve(chains() * (steps_ - 1) * shape.d_in);
    sequence_y_.reserve(chains() * (steps_ - 1) * shape.d_out);
    sequence_memory_.reserve(chains() * shape.state_size());
    upload_now(forward_places_, packing(shape, Reading::forward));
    upload_now(backward_places_, packing(shape, Reading::backward));
    packed_.reserve(models * forward_places_.size());
  }

 private:
  SequenceDims one() const { return {windows_of_model(), 1}; }
  SequenceDims sequences() const { return {starts_ * windows_of_model(), steps_ - 1}; }
  std::size_t d_in() const { return network_.shape().d_in; }
  std::size_t d_out() const { return network_.shape().d_out; }
  std::size_t windows() const { return static_cast<std::size_t>(problem_.windows); }
  std::size_t run() const { return windows() * network_.shape().state_size(); }
  const float* before(std::size_t t) const { return t > 0 ? memory_.data() + (t - 1) * run() : nullptr; }

  ChainRollout chains_with(const float* parameters, const DeviceArray<int>& places,
                           cudaStream_t stream) const {
    launch_pack(parameters, network_.parameter_count(), places.data(), static_cast<int>(places.size()),
                static_cast<int>(models_), packed_.data(), stream);
    return {.problem = problem_,
            .network = sizes_,
            .equations = DeviceEquations(equations_),
            .models = static_cast<int>(models_),
            .steps = static_cast<int>(steps_),
            .weights = packed_.data(),
            .z = z(0),
            .y = y(0),
            .x = sequence_x_.data(),
            .memory = memory_.data(),
            .sequence_memory = sequence_memory_.data(),
            .truth = truth_.data(),
            .errors = errors_.data(),
            .tape = tape_.data(),
            .slopes = slopes_.data(),
            .d_z = d_z_.data(),
            .d_x = d_x_.data(),
            .d_previous = later_.data(),
            .d_y = sequence_y_.data(),
            .d_memory = d_memory_.data()};
  }

  void forward(const float* parameters, cudaStream_t stream) override {
    for (std::size_t t = 0; t < starts_; ++t)
      network_.forward(parameters, one(), first_x() + t * windows() * d_in(), y(0) + t * windows() * d_out(),
                       before(t), memory_.data() + t * run(), &reading_tapes_[t], stream);
    launch_coupled_step(equations_, problem_, at(0), z(1), nullptr, errors_.data(), stream);
    if (steps_ > 1) launch_chains(chains_with(parameters, forward_places_, stream), launch_, stream);
  }

  void backward(const float* parameters, float* gradient, bool add, cudaStream_t stream) override {
    const bool chains_went_on = steps_ > 1;
    if (chains_went_on) {
      launch_chains_back(chains_with(parameters, backward_places_, stream), launch_, stream);
      network_.forward(parameters, sequences(), sequence_x_.data(), unused_y(), sequence_memory_.data(),
                       nullptr, &sequence_tape_, stream);
      network_.backward(parameters, sequences(), sequence_x_.data(), sequence_memory_.data(),
                        sequence_y_.data(), sequence_tape_, {.parameters = gradient}, add, stream);
    } else {
      check(cudaMemsetAsync(d_memory_.data(), 0, starts_ * run() * sizeof(float), stream), "clearing it");
    }
    launch_coupled_adjoint(equations_, problem_, at(0), z(1), slopes_.data(),
                           chains_went_on ? d_z_.data() : nullptr, d_x_.data(), d_z_before_.data(),
                           d_own_.data(), d_previous_.data(), stream);
    launch_output_gradient(problem_, 0, d_own_.data(), chains_went_on ? later_.data() : nullptr,
                           d_previous_.data(), d_y_.data(), stream);
    // Memory t is read by chain t's step 1 (d_memory_ so far) and by the reading of X_{t+1} (d_before_).
    for (std::size_t t = starts_; t-- > 0;) {
      float* const d_here = d_memory_.data() + t * run();
      if (t + 1 < starts_) launch_add(d_before_.data(), d_here, run(), stream);
      network_.backward(parameters, one(), first_x() + t * windows() * d_in(), before(t),
                        d_y_.data() + t * windows() * d_out(), reading_tapes_[t],
                        {gradient, nullptr, t > 0 ? d_before_.data() : nullptr, d_here},
                        add || chains_went_on || t + 1 < starts_, stream);
    }
  }

  /// Predictions of the pass over sequences: those of the chains again.
  float* unused_y() {
    again_.reserve(chains() * (steps_ - 1) * d_out());
    return again_.data();
  }

  DeviceNetwork network_;
  std::size_t starts_;
  PackedSizes sizes_;
  ChainLaunch launch_{};
  std::vector<DeviceTape> reading_tapes_;
  DeviceTape sequence_tape_;
  DeviceArray<float> memory_, d_memory_;  // (chain, state): after step 0
  DeviceArray<float> d_before_;           // (window, state)
  DeviceArray<float> tape_, packed_;
  DeviceArray<int> forward_places_, backward_places_;
  DeviceArray<float> sequence_x_, sequence_y_, sequence_memory_, again_;
};

}  // namespace

std::unique_ptr<DeviceLoss> make_autoregressive_rollout_loss(const StagePlan& stage,
                                                             const LossContext& context, SampleShape sample,
                                                             const NetworkShape& shape, std::size_t models) {
  return std::make_unique<AutoregressiveRolloutLoss>(stage, context, sample, shape, models);
}

}  // namespace mac::cuda
