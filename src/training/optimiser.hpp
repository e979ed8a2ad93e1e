// An optimiser takes the weights one step along; its state goes into checkpoints.
#pragma once

#include <cstddef>
#include <mac/training_plan.hpp>
#include <memory>
#include <span>
#include <vector>

namespace mac {

template <class T>
class Optimiser {
 public:
  virtual ~Optimiser() = default;

  virtual void step(std::span<T> parameters, std::span<const T> gradient, double lr, double beta1) = 0;

  // The whole state.
  std::vector<T> first_moment, second_moment;
  std::vector<T> bases;  // soap.hpp; empty for others
  std::size_t steps_taken = 0;

 protected:
  explicit Optimiser(std::size_t parameters) : first_moment(parameters), second_moment(parameters) {}
};

/// The optimiser of a stage before its first step.
template <class T>
std::unique_ptr<Optimiser<T>> make_optimiser(const StagePlan& stage, const NetworkShape& shape, int threads);

/// Scales the gradient down to norm `limit` if it is longer; returns its norm before that.
template <class T>
double clip_gradient(std::span<T> gradient, double limit);

}  // namespace mac
