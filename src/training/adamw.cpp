#include "training/adamw.hpp"

#include <cmath>

namespace mac {

namespace {
constexpr double beta2 = 0.999, epsilon = 1e-8;
}

template <class T>
AdamW<T>::AdamW(std::size_t parameters, double weight_decay)
    : first_moment(parameters), second_moment(parameters), weight_decay_(weight_decay) {}

//   p <- (1 - lr decay) p
//   m <- beta1 m + (1 - beta1) g,   v <- beta2 v + (1 - beta2) g^2
//   p <- p - lr/(1 - beta1^n) m / (sqrt(v)/sqrt(1 - beta2^n) + epsilon)        n: steps taken, this one
//   included
template <class T>
void AdamW<T>::step(std::span<T> parameters, std::span<const T> gradient, double lr, double beta1) {
  ++steps_taken;
  const double n = static_cast<double>(steps_taken);
  const T rate = static_cast<T>(lr / (1 - std::pow(beta1, n)));
  const T root_correction = static_cast<T>(std::sqrt(1 - std::pow(beta2, n)));
  const T keep = static_cast<T>(1 - lr * weight_decay_), eps = static_cast<T>(epsilon);
  const T fresh1 = static_cast<T>(1 - beta1);
  const T keep2 = static_cast<T>(beta2), fresh2 = static_cast<T>(1 - beta2);
  T* const m = first_moment.data();
  T* const v = second_moment.data();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const T g = gradient[i];
    m[i] += fresh1 * (g - m[i]);
    v[i] = keep2 * v[i] + fresh2 * g * g;
    parameters[i] = keep * parameters[i] - rate * m[i] / (std::sqrt(v[i]) / root_correction + eps);
  }
}

template <class T>
double clip_gradient(std::span<T> gradient, double limit) {
  double squares = 0;
  for (const T g : gradient) squares += static_cast<double>(g) * static_cast<double>(g);
  const double norm = std::sqrt(squares);
  if (norm > limit) {
    const T factor = static_cast<T>(limit / norm);
    for (T& g : gradient) g *= factor;
  }
  return norm;
}

template class AdamW<float>;
template class AdamW<double>;
template double clip_gradient(std::span<float>, double);
template double clip_gradient(std::span<double>, double);

}  // namespace mac
