#include "training/cuda/rollout_loss.hpp"

#include "training/normalise.hpp"

namespace mac::cuda {

namespace {

/// Windows of a batch are worked off in groups whose tapes and memories take this share of the device, for each model.
constexpr std::size_t share_of_device = 4;

}  // namespace

DeviceRolloutLoss::DeviceRolloutLoss(const StagePlan& stage, const LossContext& context, SampleShape sample,
                                     const NetworkShape& shape, std::size_t models, std::size_t steps,
                                     std::size_t bytes_of_window)
    : equations_(*context.system.reduced_equations()),
      steps_(steps),
      models_(models),
      batch_(stage.batch),
      states_(sample.states),
      group_(largest_divisor(batch_, device_memory() / share_of_device / bytes_of_window)),
      relative_(stage.loss_weights == LossWeights::relative) {
  const std::size_t starts = sample.states - steps_, d = context.system.resolved_size(), c = shape.d_out;
  problem_.windows = static_cast<int>(models * group_), problem_.windows_of_model = static_cast<int>(group_);
  problem_.starts = static_cast<int>(starts), problem_.states = static_cast<int>(sample.states);
  problem_.d = static_cast<int>(d), problem_.c = static_cast<int>(c);
  problem_.given = static_cast<int>(shape.d_in - d);
  problem_.dt = context.dt, problem_.held = context.held;
  set_drives(context.system.closure_targets(), problem_.drives);
  upload_now(groups_, integers(symmetry_groups(context.system, d)));

  z_.reserve((steps_ + 1) * chains() * d), y_.reserve(steps_ * chains() * c),
      x_.reserve(chains() * shape.d_in);
  given_.reserve(models * group_ * sample.states * (shape.d_in - d));
  truth_.reserve(models * group_ * sample.states * d);
  for (auto* array : {&d_z_, &d_z_before_, &errors_}) array->reserve(chains() * d);
  for (auto* array : {&d_own_, &d_previous_, &later_}) array->reserve(chains() * c);
  d_x_.reserve(chains() * shape.d_in), d_y_.reserve(chains() * c);
  slopes_.reserve(models * group_ * d);
  for (auto* array : {&losses_, &sizes_}) array->reserve(models * batch_ * d);
}

WindowLosses DeviceRolloutLoss::windows_from(std::size_t first) const {
  return {.models = static_cast<int>(models_),
          .batch = static_cast<int>(batch_),
          .first = static_cast<int>(first),
          .errors = static_cast<double>(static_cast<std::size_t>(problem_.starts) * steps_),
          .sizes = relative_ ? sizes_.data() : nullptr,
          .floor = smallest_error,
          .losses = losses_.data(),
          .slopes = slopes_.data()};
}

void DeviceRolloutLoss::evaluate(const float* parameters, const BatchSource& source, const Sample* samples,
                                 double noise, float* gradient, double* losses, cudaStream_t stream) {
  problem_.input = source.input, problem_.output = source.output;
  const int models = static_cast<int>(models_), batch = static_cast<int>(batch_);
  if (relative_)
    launch_variable_sizes(source, samples, groups_.data(), models * batch, static_cast<int>(states_),
                          smallest_size, sizes_.data(), stream);
  for (std::size_t first = 0; first < batch_; first += group_) {
    launch_start_rollouts(problem_, source, samples, models, batch, static_cast<int>(first), noise,
                          truth_.data(), given_.data(), z(0), first_x(), stream);
    forward(parameters, stream);
    launch_window_losses(problem_, errors_.data(), windows_from(first), stream);
    backward(parameters, gradient, first > 0, stream);
  }
  launch_mean_loss(losses_.data(), models, batch * problem_.d, 1.0, losses, stream);
  check_launch("starting a rollout loss");
}

std::unique_ptr<DeviceLoss> make_device_rollout_loss(const StagePlan& stage, const LossContext& context,
                                                     SampleShape sample, const NetworkShape& shape,
                                                     std::size_t models) {
  const bool sequence = stage.loss == LossKind::step || stage.rollout_form == RolloutForm::sequence;
  return (sequence ? make_sequence_rollout_loss : make_autoregressive_rollout_loss)(stage, context, sample,
                                                                                    shape, models);
}

}  // namespace mac::cuda
