// The optimiser's steps of one stage: on the host for one model, on a CUDA device for several at once.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "training/checkpoint.hpp"
#include "training/losses.hpp"
#include "training/one_cycle.hpp"

namespace mac {

struct StepReport {
  double loss = 0, gradient_norm = 0;
  double lr = 0;  // of this step
};

template <class T>
class Descent {
 public:
  virtual ~Descent() = default;

  /// Takes `count` steps from step `first` of the stage on; reports (model, count).
  virtual void take(std::size_t first, std::size_t count, std::span<StepReport> reports) = 0;
  /// Copies a model's weights, moments and average into its state.
  virtual void read(std::size_t model, TrainingState<T>& state) = 0;
  /// Steps of one call of take(): the host hears of them when they are all done.
  virtual std::size_t most_steps() const = 0;
  /// Of a device: which ones it takes, for those who measure.
  virtual std::string kernels() const { return {}; }
};

/// What all models of a descent share.
struct DescentPlan {
  const StagePlan& stage;
  std::size_t first_step;  // of the stage, in the whole training
  double averaging;
  const TrainingData& data;
  const LossContext& context;
  double memory;                      // bytes of data that a device may keep
  const BatchShare* share = nullptr;  // of every batch with other ranks
};

OneCycle schedule_of(const StagePlan& stage);

/// The share of the newest weights in their average after `steps` steps of the training.
double newest_share(double averaging, std::size_t steps);

template <class T>
std::unique_ptr<Descent<T>> make_host_descent(const DescentPlan& plan, const NetworkShape& shape,
                                              Loss<T>& loss, std::uint64_t seed,
                                              const TrainingState<T>& state);

/// A model of a device descent; the state is read when the descent is made.
struct DescentModel {
  std::uint64_t seed;
  const TrainingState<float>* state;
};

/// Data, batches, losses and optimiser on the device; the models differ in their seeds and states, and each
/// comes to the same bytes as alone. All are at the same step. Throws Error where there is no device.
std::unique_ptr<Descent<float>> make_device_descent(const DescentPlan& plan, const NetworkShape& shape,
                                                    std::span<const DescentModel> models);

/// Why the system's equations, which came as text, cannot be compiled for the device; empty where they can or need not be.
std::string uncompiled_equations(const System& system);

/// Whether make_device_descent knows the stage's loss for this system: closure losses, and rollout losses
/// where the system has reduced_equations(), of networks that read all resolved variables in order, in frames or as they
/// are, and behind them what is given from outside. Others run on the host around a device's network.
bool descends_on_device(const StagePlan& stage, const System& system, const InputMap& inputs);

}  // namespace mac
