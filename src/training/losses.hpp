// Losses and their gradients. With x the normalised resolved variables, y the normalised closure, |x_v| the size
// of variable v in the sequence, and z(t,s) the coupled model s steps after it started from the data's X(t):
//
//   closure   mean_{t,j} w_j (y_j(t) - target_j(t))^2
//   step      mean_{t,v} ((z_v(t,1) - X_v(t+1)) / scale_v)^2
//   rollout   mean_{s,t,v} ((z_v(t,s) - X_v(t+s)) / scale_v)^2,   s = 1..K
//
//   likelihood     of the closures under predicted means and deviations (likelihood_loss.cpp)
//   crps, energy   proper scores of several runs, of a network that reads noise (score_loss.cpp)
//
// where errors of states that the data do not have (a mask), and of runs that start there, are zero;
// and with loss_weights = "relative"
//
//   closure   mean_j sqrt(mean_t (y_j(t) - target_j(t))^2) / |x_j|
//   rollout   mean_v sqrt(mean_{s,t} ((z_v(t,s) - X_v(t+s)) / scale_v)^2) / |x_v|
//
// Paper, Training Loss Choices (apdx_training_losses): `closure` with w = 1 is the loss of Burgers' equation, KdV
// and the power grid, `step` the alternative tried for Burgers, `rollout` with K = 10 in sequence form that of
// Lorenz '96. The relative losses are not in the paper. The coupled model is eq_rom2, stepped as in
// apdx_rk4_zero_order_holding; normalised is as in apdx_data_normalization.
#pragma once

#include <algorithm>
#include <mac/coupling.hpp>
#include <mac/model.hpp>
#include <mac/network.hpp>
#include <mac/reduced_step.hpp>
#include <mac/training_plan.hpp>
#include <memory>
#include <vector>

#include "coupling/input_map.hpp"
#include "network/normaliser.hpp"
#include "training/batches.hpp"

namespace mac {

/// What every loss needs to know about the problem; outlives the loss.
struct LossContext {
  const System& system;
  const Normalisation& normalisation;
  HeldClosure held;
  ReducedStep dt;  // of the closure
  int threads = 1;
  std::size_t history = 0;  // times at the start of a sequence whose errors do not count
  InputMap inputs{system};  // what the network reads
  std::vector<double> resolved_scale = normalisation.input_scale;  // (d), of the resolved variables
  NoiseInputs noise = {};                                          // of a stochastic network
};

/// w_j, with mean 1. A closure error e (normalised) moves the normalised resolved variable it drives at the
/// rate e * output_scale/resolved_scale: `effect` weighs its square by the square of that factor.
std::vector<double> component_weights(const LossContext& context, LossWeights kind);

// Floors of the relative loss, in units of the data's scales: of an error, so that its root has a slope, and
// of a variable, so that a trajectory in which it is almost absent doesn't count for everything.
inline constexpr double smallest_error = 1e-6, smallest_size = 0.1;

/// Windows of a batch are rolled out in groups of this many numbers of network state and input, so that memory does not
/// grow with the batch.
inline constexpr std::size_t group_numbers = 1 << 26;

/// The largest divisor of n up to `limit`, at least 1: groups of equal size share their buffers.
inline std::size_t largest_divisor(std::size_t n, std::size_t limit) {
  std::size_t divisor = std::clamp<std::size_t>(limit, 1, n);
  while (n % divisor != 0) --divisor;
  return divisor;
}

/// |x_v| of the sequences of a batch, in units of the variables' scales. Variables that a symmetry mixes
/// share one size.
class VariableSizes {
 public:
  explicit VariableSizes(const LossContext& context);
  std::vector<double> of(const Batch& batch, std::size_t b) const;  // (resolved_size)

 private:
  std::vector<double> factors_;  // of the resolved variables: 1/scale
  std::vector<std::size_t> groups_;
};

template <class T>
class Loss {
 public:
  virtual ~Loss() = default;
  /// The loss of a batch; its gradient is added to `gradient` (parameter_count) unless that is null. Sums
  /// have a fixed order: the result doesn't depend on the number of threads.
  virtual double evaluate(const T* parameters, const Batch& batch, T* gradient) = 0;
  /// How a batch of so many samples goes through the network.
  virtual BatchForm form_of(std::size_t samples, SampleShape shape) const = 0;
};

/// The loss that a stage asks for.
template <class T>
std::unique_ptr<Loss<T>> make_loss(const StagePlan& stage, const LossContext& context,
                                   SequenceEngine<T>& engine);

// The losses themselves; each works on the engine it is given.
template <class T>
std::unique_ptr<Loss<T>> make_closure_loss(const LossContext& context, LossWeights weights,
                                           SequenceEngine<T>& engine);
template <class T>
std::unique_ptr<Loss<T>> make_likelihood_loss(const LossContext& context, SequenceEngine<T>& engine);
template <class T>
std::unique_ptr<Loss<T>> make_score_loss(const StagePlan& stage, const LossContext& context,
                                         SequenceEngine<T>& engine);
template <class T>
std::unique_ptr<Loss<T>> make_rollout_loss(const LossContext& context, std::size_t steps, RolloutForm form,
                                           LossWeights weights, SequenceEngine<T>& engine,
                                           RolloutGradient gradient = RolloutGradient::full);

}  // namespace mac
