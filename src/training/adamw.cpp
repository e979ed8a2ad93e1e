#include "training/adamw.hpp"

#include <cmath>

namespace mac {

template <class T>
AdamStep<T>::AdamStep(std::size_t n, double lr, double weight_decay, double beta1, double beta2)
    : keep(static_cast<T>(1 - lr * weight_decay)),
      rate(static_cast<T>(lr / (1 - std::pow(beta1, static_cast<double>(n))))),
      fresh1(static_cast<T>(1 - beta1)),
      keep2(static_cast<T>(beta2)),
      fresh2(static_cast<T>(1 - beta2)),
      root_correction(static_cast<T>(std::sqrt(1 - std::pow(beta2, static_cast<double>(n))))) {}

template <class T>
AdamW<T>::AdamW(std::size_t parameters, double weight_decay)
    : weight_decay_(weight_decay), first_moment_(parameters), second_moment_(parameters) {}

template <class T>
void AdamW<T>::step(std::span<T> parameters, std::span<const T> gradient, double lr, double beta1) {
  const AdamStep<T> step(++steps_taken_, lr, weight_decay_, beta1, adamw_beta2);
  T* const m = first_moment_.data();
  T* const v = second_moment_.data();
  for (std::size_t i = 0; i < parameters.size(); ++i) step.take(parameters[i], m[i], v[i], gradient[i]);
}

template <class T>
OptimiserState<T> AdamW<T>::state() const {
  return {{first_moment_key, first_moment_}, {second_moment_key, second_moment_}};
}

template <class T>
void AdamW<T>::restore(const OptimiserState<T>& state, std::size_t steps_taken) {
  first_moment_ = state.at(first_moment_key);
  second_moment_ = state.at(second_moment_key);
  steps_taken_ = steps_taken;
}

template struct AdamStep<float>;
template struct AdamStep<double>;
template class AdamW<float>;
template class AdamW<double>;

}  // namespace mac
