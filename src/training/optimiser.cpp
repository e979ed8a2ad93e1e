#include "training/optimiser.hpp"

#include <cmath>

#include "training/adamw.hpp"
#include "training/soap.hpp"

namespace mac {

template <class T>
std::unique_ptr<Optimiser<T>> make_optimiser(const StagePlan& stage, const NetworkShape& shape, int threads) {
  if (stage.optimiser == OptimiserKind::soap)
    return std::make_unique<Soap<T>>(shape, stage.weight_decay, threads);
  return std::make_unique<AdamW<T>>(parameter_count(shape), stage.weight_decay);
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

template std::unique_ptr<Optimiser<float>> make_optimiser(const StagePlan&, const NetworkShape&, int);
template std::unique_ptr<Optimiser<double>> make_optimiser(const StagePlan&, const NetworkShape&, int);
template double clip_gradient(std::span<float>, double);
template double clip_gradient(std::span<double>, double);

}  // namespace mac
