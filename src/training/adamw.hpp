// AdamW as in PyTorch: decoupled weight decay on every parameter, bias correction with the current betas.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace mac {

template <class T>
class AdamW {
 public:
  AdamW(std::size_t parameters, double weight_decay);

  void step(std::span<T> parameters, std::span<const T> gradient, double lr, double beta1);

  // The whole state of the optimiser, for checkpoints.
  std::vector<T> first_moment, second_moment;
  std::size_t steps_taken = 0;

 private:
  double weight_decay_;
};

/// Scales the gradient down to norm `limit` if it is longer; returns its norm before that.
template <class T>
double clip_gradient(std::span<T> gradient, double limit);

}  // namespace mac
