#include "training/cuda/device_loss.hpp"
#include "training/normalise.hpp"

namespace mac::cuda {

namespace {

class DeviceClosureLoss final : public DeviceLoss {
 public:
  DeviceClosureLoss(const StagePlan& stage, const LossContext& context, SampleShape sample,
                    const NetworkShape& shape, std::size_t models)
      : dims_{stage.batch, sample.closures},
        shape_(shape),
        resolved_(context.system.resolved_size()),
        relative_(stage.loss_weights == LossWeights::relative),
        network_(shape, models) {
    upload_now(weights_, component_weights(context, stage.loss_weights));
    upload_now(groups_, integers(symmetry_groups(context.system, resolved_)));
    upload_now(targets_, integers(context.system.closure_targets()));
    const std::size_t samples = models * dims_.batch, rows = samples * dims_.time;
    x_.reserve(rows * shape.d_in);
    for (DeviceArray<float>* array : {&target_, &y_, &d_y_}) array->reserve(rows * shape.d_out);
    sums_.reserve(samples * loss_parts);
    sizes_.reserve(samples * resolved_);
  }

  std::string kernels() const override { return network_.kernels(); }

  void evaluate(const float* parameters, const BatchSource& source, const Sample* samples, double noise,
                float* gradient, double* losses, cudaStream_t stream) override {
    const int models = static_cast<int>(network_.models()), batch = static_cast<int>(dims_.batch),
              time = static_cast<int>(dims_.time);
    launch_make_batch(source, samples, models * batch, time, noise, x_.data(), target_.data(), stream);
    network_.forward(parameters, dims_, x_.data(), y_.data(), nullptr, nullptr, &tape_, stream);
    const ClosureErrors errors{.models = models,
                               .batch = batch,
                               .time = time,
                               .d_out = static_cast<int>(shape_.d_out),
                               .y = y_.data(),
                               .target = target_.data(),
                               .d_y = d_y_.data(),
                               .sums = sums_.data(),
                               .losses = losses};
    if (relative_) {
      launch_variable_sizes(source, samples, groups_.data(), models * batch, time, smallest_size,
                            sizes_.data(), stream);
      launch_relative_loss(errors,
                           {.sizes = sizes_.data(),
                            .targets = targets_.data(),
                            .d_in = static_cast<int>(resolved_),
                            .floor = smallest_error},
                           stream);
    } else {
      launch_closure_loss(errors, weights_.data(), stream);
    }
    network_.backward(parameters, dims_, x_.data(), nullptr, d_y_.data(), tape_, {.parameters = gradient},
                      false, stream);
  }

 private:
  SequenceDims dims_;
  NetworkShape shape_;
  std::size_t resolved_;
  bool relative_;
  DeviceNetwork network_;
  DeviceTape tape_;
  DeviceArray<float> x_, target_, y_, d_y_;
  DeviceArray<double> weights_, sums_, sizes_;
  DeviceArray<int> groups_, targets_;
};

}  // namespace

std::unique_ptr<DeviceLoss> make_device_closure_loss(const StagePlan& stage, const LossContext& context,
                                                     SampleShape sample, const NetworkShape& shape,
                                                     std::size_t models) {
  return std::make_unique<DeviceClosureLoss>(stage, context, sample, shape, models);
}

std::unique_ptr<DeviceLoss> make_device_loss(const StagePlan& stage, const LossContext& context,
                                             SampleShape sample, const NetworkShape& shape,
                                             std::size_t models) {
  return stage.loss == LossKind::closure ? make_device_closure_loss(stage, context, sample, shape, models)
                                         : make_device_rollout_loss(stage, context, sample, shape, models);
}

}  // namespace mac::cuda
