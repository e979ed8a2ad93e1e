// An optimiser takes the weights one step along; its state goes into checkpoints.
#pragma once

#include <cstddef>
#include <mac/training_plan.hpp>
#include <memory>
#include <span>

#include "training/optimiser_state.hpp"

namespace mac {

template <class T>
class Optimiser {
 public:
  virtual ~Optimiser() = default;

  virtual void step(std::span<T> parameters, std::span<const T> gradient, double lr, double beta1) = 0;

  virtual OptimiserState<T> state() const = 0;
  /// Goes on from a state after so many steps.
  virtual void restore(const OptimiserState<T>& state, std::size_t steps_taken) = 0;
};

/// The optimiser of a stage before its first step.
template <class T>
std::unique_ptr<Optimiser<T>> make_optimiser(const StagePlan& stage, const NetworkShape& shape, int threads);

/// Scales the gradient down to norm `limit` if it is longer; returns its norm before that.
template <class T>
double clip_gradient(std::span<T> gradient, double limit);

}  // namespace mac
