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
    : Optimiser<T>(parameters), weight_decay_(weight_decay) {}

template <class T>
void AdamW<T>::step(std::span<T> parameters, std::span<const T> gradient, double lr, double beta1) {
  const AdamStep<T> step(++this->steps_taken, lr, weight_decay_, beta1, 0.999);
  T* const m = this->first_moment.data();
  T* const v = this->second_moment.data();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    step.update_first(m[i], gradient[i]);
    step.update_second(v[i], gradient[i]);
    step.move(parameters[i], step.direction(m[i], v[i]));
  }
}

template struct AdamStep<float>;
template struct AdamStep<double>;
template class AdamW<float>;
template class AdamW<double>;

}  // namespace mac
