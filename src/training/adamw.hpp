// AdamW as in PyTorch: decoupled weight decay on every parameter, bias correction with the current betas.
#pragma once

#include <cmath>
#include <mac/host_device.hpp>

#include "training/optimiser.hpp"

namespace mac {

/// One step of Adam's kind, n being the steps taken, this one included:
///
///   m <- beta1 m + (1 - beta1) g,   v <- beta2 v + (1 - beta2) g^2
///   p <- (1 - lr decay) p - lr/(1 - beta1^n) m / (sqrt(v)/sqrt(1 - beta2^n) + epsilon)
template <class T>
struct AdamStep {
  T keep, rate, fresh1, keep2, fresh2, root_correction;

  AdamStep(std::size_t n, double lr, double weight_decay, double beta1, double beta2);

  MAC_HOST_DEVICE void update_first(T& m, T g) const { m += fresh1 * (g - m); }
  MAC_HOST_DEVICE void update_second(T& v, T g) const { v = keep2 * v + fresh2 * g * g; }
  MAC_HOST_DEVICE T direction(T m, T v) const {
    return m / (std::sqrt(v) / root_correction + static_cast<T>(1e-8));
  }
  MAC_HOST_DEVICE void move(T& p, T direction) const { p = keep * p - rate * direction; }

  /// All of it for one parameter.
  MAC_HOST_DEVICE void take(T& p, T& m, T& v, T g) const {
    update_first(m, g);
    update_second(v, g);
    move(p, direction(m, v));
  }
};

inline constexpr double adamw_beta2 = 0.999;

template <class T>
class AdamW final : public Optimiser<T> {
 public:
  AdamW(std::size_t parameters, double weight_decay);

  void step(std::span<T> parameters, std::span<const T> gradient, double lr, double beta1) override;
  OptimiserState<T> state() const override;
  void restore(const OptimiserState<T>& state, std::size_t steps_taken) override;

 private:
  double weight_decay_;
  std::size_t steps_taken_ = 0;
  std::vector<T> first_moment_, second_moment_;
};

}  // namespace mac
