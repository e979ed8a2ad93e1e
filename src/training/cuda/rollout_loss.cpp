// The counterpart of training/rollout_loss.cpp: network passes and coupled steps take turns on one stream.
#include <algorithm>

#include "training/cuda/coupled_chains.hpp"
#include "training/cuda/device_loss.hpp"
#include "training/cuda/rollout_network.hpp"
#include "training/normalise.hpp"

namespace mac::cuda {

namespace {

/// Windows of a batch are worked off in groups whose tapes and memories take this share of the device, for
/// each model.
constexpr std::size_t share_of_device = 4;

class DeviceRolloutLoss final : public DeviceLoss {
 public:
  DeviceRolloutLoss(const StagePlan& stage, const LossContext& context, SampleShape sample,
                    const NetworkShape& shape, std::size_t models)
      : equations_(*context.system.reduced_equations()),
        steps_(stage.loss == LossKind::step ? 1 : stage.rollout_steps),
        models_(models),
        batch_(stage.batch),
        states_(sample.states),
        relative_(stage.loss_weights == LossWeights::relative),
        parameters_(parameter_count(shape)) {
    const RolloutForm form = stage.loss == LossKind::step ? RolloutForm::sequence : stage.rollout_form;
    const std::size_t starts = sample.states - steps_;
    const DeviceNetwork network(shape, 1);
    const std::size_t per_window =
        form == RolloutForm::sequence
            ? network.tape_bytes({1, starts})
            : network.tape_bytes({starts, 1}) + starts * shape.state_size() * sizeof(float);
    group_ = largest_divisor(batch_, device_memory() / share_of_device / (per_window * steps_));
    network_ = make_device_rollout_network(form, shape, models, group_, starts, steps_);

    problem_.windows = static_cast<int>(network_->models() * group_);
    problem_.starts = static_cast<int>(starts), problem_.states = static_cast<int>(sample.states);
    problem_.autoregressive = form == RolloutForm::autoregressive;
    problem_.d = static_cast<int>(shape.d_in), problem_.c = static_cast<int>(shape.d_out);
    problem_.dt = context.dt, problem_.held = context.held;
    set_drives(context.system.closure_targets(), problem_.drives);
    upload_now(groups_, integers(symmetry_groups(context.system, shape.d_in)));

    const std::size_t chains = network_->models() * group_ * starts;
    z_.resize(steps_ + 1), x_.resize(steps_), y_.resize(steps_);
    for (auto& z : z_) z.reserve(chains * shape.d_in);
    for (auto& x : x_) x.reserve(chains * shape.d_in);
    for (auto& y : y_) y.reserve(chains * shape.d_out);
    truth_.reserve(network_->models() * group_ * sample.states * shape.d_in);
    for (auto* array : {&d_z_, &d_z_before_}) array->reserve(chains * shape.d_in);
    for (auto* array : {&d_own_, &d_previous_, &later_}) array->reserve(chains * shape.d_out);
    d_x_.reserve(chains * shape.d_in);
    d_y_.reserve(chains * shape.d_out);
    errors_.reserve(chains * shape.d_in);
    slopes_.reserve(network_->models() * group_ * shape.d_in);
    for (auto* array : {&losses_, &sizes_}) array->reserve(models * batch_ * shape.d_in);
  }

  void evaluate(const float* parameters, const BatchSource& source, const Sample* samples, double noise,
                float* gradient, double* losses, cudaStream_t stream) override {
    problem_.input = source.input, problem_.output = source.output;
    const int windows = static_cast<int>(models_ * batch_);
    if (relative_)
      launch_variable_sizes(source, samples, groups_.data(), windows, static_cast<int>(states_),
                            smallest_size, sizes_.data(), stream);
    for (std::size_t m = 0; m < models_; m += network_->models())
      for (std::size_t first = 0; first < batch_; first += group_) {
        const float* const weights = parameters + m * parameters_;
        forward(weights, source, samples + m * batch_, first, noise, stream);
        launch_window_losses(problem_, errors_.data(), windows_from(m, first), stream);
        backward(weights, gradient + m * parameters_, first > 0, stream);
      }
    launch_mean_loss(losses_.data(), static_cast<int>(models_), static_cast<int>(batch_) * problem_.d, 1.0,
                     losses, stream);
    check_launch("starting a rollout loss");
  }

 private:
  CoupledArrays at(std::size_t s) const {
    return {static_cast<int>(s), z_[s].data(), y_[s].data(), s > 0 ? y_[s - 1].data() : nullptr,
            truth_.data()};
  }

  WindowLosses windows_from(std::size_t model, std::size_t first) const {
    const std::size_t parts = model * batch_ * static_cast<std::size_t>(problem_.d);
    return {.models = static_cast<int>(network_->models()),
            .batch = static_cast<int>(batch_),
            .first = static_cast<int>(first),
            .errors = static_cast<double>(static_cast<std::size_t>(problem_.starts) * steps_),
            .sizes = relative_ ? sizes_.data() + parts : nullptr,
            .floor = smallest_error,
            .losses = losses_.data() + parts,
            .slopes = slopes_.data()};
  }

  void forward(const float* parameters, const BatchSource& source, const Sample* samples, std::size_t first,
               double noise, cudaStream_t stream) {
    const int models = static_cast<int>(network_->models()), batch = static_cast<int>(batch_),
              window = static_cast<int>(first);
    launch_start_rollouts(problem_, source, samples, models, batch, window, noise, truth_.data(),
                          z_[0].data(), x_[0].data(), stream);
    for (std::size_t s = 0; s < steps_; ++s) {
      network_->forward(parameters, s, x_[s].data(), y_[s].data(), stream);
      launch_coupled_step(equations_, problem_, at(s), z_[s + 1].data(),
                          s + 1 < steps_ ? x_[s + 1].data() : nullptr, errors_.data(), stream);
    }
  }

  void backward(const float* parameters, float* gradient, bool add, cudaStream_t stream) {
    for (std::size_t s = steps_; s-- > 0;) {
      const bool last = s + 1 == steps_;
      launch_coupled_adjoint(equations_, problem_, at(s), z_[s + 1].data(), slopes_.data(),
                             last ? nullptr : d_z_.data(), d_x_.data(), d_z_before_.data(), d_own_.data(),
                             d_previous_.data(), stream);
      launch_output_gradient(problem_, static_cast<int>(s), d_own_.data(), last ? nullptr : later_.data(),
                             d_previous_.data(), d_y_.data(), stream);
      network_->backward(parameters, s, x_[s].data(), d_y_.data(), gradient, add || !last,
                         s > 0 ? d_x_.data() : nullptr, stream);
      std::swap(d_z_, d_z_before_);
      std::swap(later_, d_previous_);
    }
  }

  ReducedEquations equations_;
  std::size_t steps_, models_, batch_, states_;
  bool relative_;
  std::size_t parameters_, group_ = 1;
  std::unique_ptr<DeviceRolloutNetwork> network_;
  RolloutProblem problem_{};
  std::vector<DeviceArray<double>> z_;     // [s] (chains, d): after s steps
  std::vector<DeviceArray<float>> x_, y_;  // [s] the network's inputs and outputs
  DeviceArray<double> truth_;
  DeviceArray<int> groups_;
  DeviceArray<double> errors_, slopes_;             // (chains, d), (windows, d)
  DeviceArray<double> losses_, sizes_;              // (model, batch, d)
  DeviceArray<double> d_z_, d_z_before_;            // (chains, d)
  DeviceArray<double> d_own_, d_previous_, later_;  // (chains, c)
  DeviceArray<float> d_x_, d_y_;
};

}  // namespace

std::unique_ptr<DeviceLoss> make_device_rollout_loss(const StagePlan& stage, const LossContext& context,
                                                     SampleShape sample, const NetworkShape& shape,
                                                     std::size_t models) {
  return std::make_unique<DeviceRolloutLoss>(stage, context, sample, shape, models);
}

}  // namespace mac::cuda
