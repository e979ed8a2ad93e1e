#include "training/cuda/autoregressive_rollout_loss.hpp"

#include "training/cuda/chain_rollout.hpp"

namespace mac::cuda {

std::size_t reading_bytes(const NetworkShape& shape, std::size_t starts) {
  return starts * (DeviceNetwork(shape, 1).tape_bytes({1, 1}) + 2 * shape.state_size() * sizeof(float));
}

namespace {

/// So many states of a window are read faster in one pass of the general path, with its many launches, than one after the
/// other by fused kernels.
constexpr std::size_t many_starts = 12;

bool reads_at_once(const DeviceNetwork& network, std::size_t starts) {
  return starts > 1 && (network.is_general() || (starts >= many_starts && may_take_general_path()));
}

}  // namespace

// With one starting state the windows of all models are one run of every array and are read together.
AutoregressiveRolloutLoss::AutoregressiveRolloutLoss(const StagePlan& stage, const LossContext& context,
                                                     SampleShape sample, const NetworkShape& shape,
                                                     std::size_t models, std::size_t bytes_of_window,
                                                     Kernels kernels)
    : DeviceRolloutLoss(stage, context, sample, shape, models, stage.rollout_steps, bytes_of_window),
      network_(shape, models, kernels),
      starts_(sample.states - steps_),
      at_once_(starts_ == 1 ? models : 1) {
  problem_.autoregressive = true;
  memory_.reserve(chains() * state());
  d_memory_.reserve(chains() * state());
  if (reads_at_once(network_, starts_)) {
    reader_.emplace(shape, models);
    x_of_windows_.reserve(chains() * d_in());
    y_of_windows_.reserve(chains() * d_out());
    return;
  }
  if (at_once_ < models_) one_.emplace(shape, 1, kernels);
  tapes_.resize(models / at_once_ * starts_);
  d_before_.reserve(windows_of_model() * state());
}

std::string AutoregressiveRolloutLoss::kernels() const {
  const std::string reading = reader_ ? "general" : network_.kernels(), steps = kernels_of_steps();
  return steps_ == 1 || steps == reading ? reading : reading + " and " + steps;
}

const float* AutoregressiveRolloutLoss::before(std::size_t model, std::size_t t) const {
  return t > 0 ? memory_.data() + (model * starts_ + t - 1) * windows_of_model() * state() : nullptr;
}

void AutoregressiveRolloutLoss::read(const float* parameters, cudaStream_t stream) {
  DeviceNetwork& network = one_ ? *one_ : network_;
  for (std::size_t m = 0; m < models_; m += at_once_)
    for (std::size_t t = 0; t < starts_; ++t) {
      const std::size_t chain = (m * starts_ + t) * windows_of_model();
      network.forward(parameters + m * network.parameter_count(), {windows_of_model(), 1},
                      first_x() + chain * d_in(), y(0) + chain * d_out(), before(m, t),
                      memory_.data() + chain * state(), &tapes_[m * starts_ + t], stream);
    }
}

// Memory t is read by chain t's step 1 (d_memory_ so far) and by the reading of X_{t+1} (d_before_).
void AutoregressiveRolloutLoss::read_back(const float* parameters, float* gradient, bool add,
                                          cudaStream_t stream) {
  DeviceNetwork& network = one_ ? *one_ : network_;
  const std::size_t run = windows_of_model() * state();
  for (std::size_t m = 0; m < models_; m += at_once_)
    for (std::size_t t = starts_; t-- > 0;) {
      const std::size_t chain = (m * starts_ + t) * windows_of_model(), first = m * network.parameter_count();
      float* const d_here = d_memory_.data() + chain * state();
      if (t + 1 < starts_) launch_add(d_before_.data(), d_here, run, stream);
      network.backward(parameters + first, {windows_of_model(), 1}, first_x() + chain * d_in(), before(m, t),
                       d_y_.data() + chain * d_out(), tapes_[m * starts_ + t],
                       {gradient + first, nullptr, t > 0 ? d_before_.data() : nullptr, d_here},
                       add || t + 1 < starts_, stream);
    }
}

// Chains are ordered by start, then window; the rows of a pass over sequences by window, then start.
void AutoregressiveRolloutLoss::read_at_once(const float* parameters, cudaStream_t stream) {
  const auto swap = [&](const float* from, float* to, std::size_t rows, std::size_t columns,
                        std::size_t width) { launch_swap(from, to, models_, rows, columns, width, stream); };
  swap(first_x(), x_of_windows_.data(), starts_, windows_of_model(), d_in());
  reader_->forward_every(parameters, {windows_of_model(), starts_}, x_of_windows_.data(),
                         y_of_windows_.data(), memory_.data(), reading_, stream);
  swap(y_of_windows_.data(), y(0), windows_of_model(), starts_, d_out());
}
void AutoregressiveRolloutLoss::read_back_at_once(const float* parameters, float* gradient, bool add,
                                                  cudaStream_t stream) {
  launch_swap(d_y_.data(), y_of_windows_.data(), models_, starts_, windows_of_model(), d_out(), stream);
  reader_->backward_every(parameters, {windows_of_model(), starts_}, memory_.data(), y_of_windows_.data(),
                          d_memory_.data(), reading_, gradient, add, stream);
}

void AutoregressiveRolloutLoss::forward(const float* parameters, cudaStream_t stream) {
  reader_ ? read_at_once(parameters, stream) : read(parameters, stream);
  launch_coupled_step(equations_, problem_, at(0), z(1), next_x_, errors_.data(), stream);
  if (steps_ > 1) later_steps(parameters, stream);
}

void AutoregressiveRolloutLoss::backward(const float* parameters, float* gradient, bool add,
                                         cudaStream_t stream) {
  const bool went_on = steps_ > 1;
  if (went_on)
    later_steps_back(parameters, gradient, add, stream);
  else
    check(cudaMemsetAsync(d_memory_.data(), 0, chains() * state() * sizeof(float), stream), "clearing it");
  launch_coupled_adjoint(equations_, problem_, at(0), z(1), slopes_.data(), went_on ? d_z_.data() : nullptr,
                         d_x_.data(), d_z_before_.data(), d_own_.data(), d_previous_.data(), stream);
  launch_output_gradient(problem_, 0, d_own_.data(), went_on ? later_.data() : nullptr, d_previous_.data(),
                         d_y_.data(), stream);
  if (reader_)
    read_back_at_once(parameters, gradient, add || went_on, stream);
  else
    read_back(parameters, gradient, add || went_on, stream);
}

std::unique_ptr<DeviceLoss> make_autoregressive_rollout_loss(const StagePlan& stage,
                                                             const LossContext& context, SampleShape sample,
                                                             const NetworkShape& shape, std::size_t models) {
  const std::size_t chains = stage.batch * (sample.states - stage.rollout_steps);
  const auto launch = has_step_kernels(shape.kind)
                          ? choose_chain_launch(packed_sizes(shape), shared_memory(), multiprocessors())
                          : std::nullopt;
  const bool given = shape.d_in > context.system.resolved_size();  // chains in one launch read variables only
  const bool few = launch && chains <= launch->most_chains && !given;
  return (few ? make_chain_rollout_loss : make_stepwise_rollout_loss)(stage, context, sample, shape, models);
}

}  // namespace mac::cuda
