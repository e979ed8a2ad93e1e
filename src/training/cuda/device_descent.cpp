// A step: draw the samples (host, a few microseconds), make the batch, loss and gradient, norm, the
// optimiser's step. The host queues step after step and waits once at the end of take().
#include <cmath>
#include <mac/cuda.hpp>
#include <optional>

#include "coupling/cuda/written_kernel.hpp"
#include "training/cuda/coupled_chains.hpp"
#include "training/cuda/device_data.hpp"
#include "training/cuda/device_loss.hpp"
#include "training/cuda/device_soap.hpp"
#include "training/descent.hpp"
#include "training/soap.hpp"

namespace mac {

namespace cuda {

namespace {

constexpr std::size_t longest_take = 256;  // steps

/// All resolved variables in order, and then nothing but what is given from outside.
bool reads_all_variables_first(const InputMap& inputs, std::size_t d) {
  if (inputs.sites() > 1 || inputs.features() < d) return false;
  for (std::size_t f = 0; f < inputs.features(); ++f)
    if (f < d ? inputs.variable_of(f) != f : !inputs.is_given(f)) return false;
  return true;
}

class DeviceDescent final : public Descent<float> {
 public:
  DeviceDescent(const DescentPlan& plan, const NetworkShape& shape, std::span<const DescentModel> models)
      : plan_(plan),
        schedule_(schedule_of(plan.stage)),
        parameters_count_(parameter_count(shape)),
        sample_(sample_shape(plan.stage, plan.data)),
        data_(plan, sample_, models.size()),
        loss_(make_device_loss(plan.stage, plan.context, sample_, shape, models.size())),
        host_samples_(longest_take * models.size() * plan.stage.batch) {
    for (const DescentModel& model : models) seeds_.push_back(model.seed);
    const std::size_t samples = models.size() * plan.stage.batch;
    samples_.reserve(samples);
    losses_.reserve(longest_take * models.size());
    norms_.reserve(longest_take * models.size());
    gradient_.reserve(models.size() * parameters_count_);
    if (plan.stage.optimiser == OptimiserKind::soap) soap_.emplace(shape, models.size());
    const bool fresh = models[0].state->step == plan.first_step;
    const std::vector<float> zeros(parameters_count_);
    for (std::size_t m = 0; m < models.size(); ++m) {
      const TrainingState<float>& state = *models[m].state;
      averaged_ = !state.average.empty();
      put(parameters_, m, state.parameters);
      put(first_moment_, m, fresh ? zeros : state.optimiser.at(first_moment_key));
      put(second_moment_, m, fresh ? zeros : state.optimiser.at(second_moment_key));
      if (averaged_) put(average_, m, state.average);
      if (soap_) soap_->put(m, fresh ? std::vector<float>() : state.optimiser.at(bases_key));
    }
    check(cudaDeviceSynchronize(), "copying to it");
  }

  std::size_t most_steps() const override { return longest_take; }
  std::string kernels() const override { return loss_->kernels(); }

  void take(std::size_t first, std::size_t count, std::span<StepReport> reports) override {
    const std::size_t models = seeds_.size();
    for (std::size_t i = 0; i < count; ++i) queue_step(first + i, i);
    std::vector<double> losses(count * models), norms(count * models);
    losses_.download(losses.data(), losses.size(), stream_);
    norms_.download(norms.data(), norms.size(), stream_);
    stream_.wait();
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t m = 0; m < models; ++m)
        reports[m * count + i] = {losses[i * models + m], norms[i * models + m], schedule_.at(first + i).lr};
  }

  void read(std::size_t model, TrainingState<float>& state) override {
    if (soap_) soap_->settle(stream_);
    get(parameters_, model, state.parameters);
    state.optimiser.clear();
    get(first_moment_, model, state.optimiser[first_moment_key]);
    get(second_moment_, model, state.optimiser[second_moment_key]);
    if (soap_) soap_->get(model, state.optimiser[bases_key], stream_);
    if (averaged_) get(average_, model, state.average);
    stream_.wait();
  }

 private:
  /// Step `local` of the stage, the i-th of this take().
  void queue_step(std::size_t local, std::size_t i) {
    const std::size_t models = seeds_.size(), batch = plan_.stage.batch;
    Sample* const drawn = host_samples_.data() + i * models * batch;
    for (std::size_t m = 0; m < models; ++m) data_.draw(m, seeds_[m], local, drawn + m * batch, stream_);
    samples_.upload(drawn, models * batch, stream_);
    loss_->evaluate(parameters_.data(), data_.source(), samples_.data(), noise_at(plan_.stage, local),
                    gradient_.data(), losses_.data() + i * models, stream_);
    double* const norms = norms_.data() + i * models;
    launch_gradient_norm(gradient_.data(), static_cast<int>(models), parameters_count_, norms, stream_);
    queue_optimiser(local, norms);
    check_launch("starting a training step");
  }

  void queue_optimiser(std::size_t local, const double* norms) {
    const auto [lr, beta1] = schedule_.at(local);
    const double decay = plan_.stage.weight_decay, clip = plan_.stage.clip > 0 ? plan_.stage.clip : INFINITY,
                 share = newest_share(plan_.averaging, plan_.first_step + local + 1);
    const DeviceStep step{
        .adam = AdamStep<float>(local + 1, lr, decay, beta1, soap_ ? soap_beta2 : adamw_beta2),
        .clip = clip,
        .newest_share = static_cast<float>(share)};
    float* const average = averaged_ ? average_.data() : nullptr;
    if (soap_)
      soap_->step({.parameters = parameters_.data(),
                   .gradient = gradient_.data(),
                   .first_moment = first_moment_.data(),
                   .second_moment = second_moment_.data(),
                   .average = average},
                  step, soap_follows(local + 1), norms, stream_);
    else
      launch_adamw(step, {parameters_.data(), first_moment_.data(), second_moment_.data(), average},
                   gradient_.data(), norms, static_cast<int>(seeds_.size()), parameters_count_, stream_);
  }

  void put(DeviceArray<float>& to, std::size_t model, const std::vector<float>& from) {
    to.reserve(seeds_.size() * parameters_count_);
    check(cudaMemcpy(to.data() + model * parameters_count_, from.data(), from.size() * sizeof(float),
                     cudaMemcpyHostToDevice),
          "copying to it");
  }
  void get(const DeviceArray<float>& from, std::size_t model, std::vector<float>& to) const {
    to.resize(parameters_count_);
    check(cudaMemcpyAsync(to.data(), from.data() + model * parameters_count_, to.size() * sizeof(float),
                          cudaMemcpyDeviceToHost, stream_),
          "copying from it");
  }

  DescentPlan plan_;
  OneCycle schedule_;
  std::size_t parameters_count_;
  SampleShape sample_;
  Stream stream_;
  DeviceData data_;
  std::unique_ptr<DeviceLoss> loss_;
  std::vector<std::uint64_t> seeds_;
  PinnedArray<Sample> host_samples_;
  DeviceArray<Sample> samples_;
  DeviceArray<float> parameters_, gradient_, first_moment_, second_moment_, average_;
  DeviceArray<double> losses_, norms_;
  std::optional<DeviceSoap> soap_;
  bool averaged_ = false;
};

}  // namespace

}  // namespace cuda

std::string uncompiled_equations(const System& system) {
  const auto equations = system.reduced_equations();
  const bool written = equations && std::holds_alternative<WrittenEquations>(equations->of);
  return written ? cuda::runtime_compiler_unavailable() : std::string();
}

bool descends_on_device(const StagePlan& stage, const System& system, const InputMap& inputs) {
  if (stage.optimiser == OptimiserKind::lbfgs) return false;
  if (!cuda::reads_all_variables_first(inputs, system.resolved_size())) return false;
  const std::size_t variables = std::max(system.resolved_size(), system.closure_size());
  if (stage.loss == LossKind::closure) return variables <= cuda::most_components;
  return system.reduced_equations().has_value() && variables <= cuda::most_variables &&
         uncompiled_equations(system).empty();
}

std::unique_ptr<Descent<float>> make_device_descent(const DescentPlan& plan, const NetworkShape& shape,
                                                    std::span<const DescentModel> models) {
  if (const std::string reason = cuda_unavailable(); !reason.empty()) throw Error(reason);
  return std::make_unique<cuda::DeviceDescent>(plan, shape, models);
}

}  // namespace mac
