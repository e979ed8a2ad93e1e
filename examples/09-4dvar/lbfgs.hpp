// L-BFGS (Nocedal & Wright, algorithms 7.4 and 7.5) with a backtracking line search.
#pragma once

#include <cmath>
#include <cstddef>
#include <deque>
#include <functional>
#include <numeric>
#include <vector>

using Numbers = std::vector<double>;

inline double dot(const Numbers& a, const Numbers& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// Minimises cost(x, gradient) from x on, which it changes. Returns the number of evaluations.
inline int minimise(const std::function<double(const Numbers&, Numbers&)>& cost, Numbers& x, int iterations) {
  constexpr std::size_t remembered = 12;
  std::deque<Numbers> steps, changes;  // of x and of the gradient
  Numbers gradient(x.size()), next_gradient(x.size());
  double value = cost(x, gradient);
  int evaluations = 1;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    Numbers direction(gradient);
    std::vector<double> alpha(steps.size());
    for (std::size_t k = steps.size(); k-- > 0;) {
      alpha[k] = dot(steps[k], direction) / dot(steps[k], changes[k]);
      for (std::size_t i = 0; i < x.size(); ++i) direction[i] -= alpha[k] * changes[k][i];
    }
    const double scale = steps.empty()
                             ? 1 / std::sqrt(dot(gradient, gradient))
                             : dot(steps.back(), changes.back()) / dot(changes.back(), changes.back());
    for (double& number : direction) number *= -scale;
    for (std::size_t k = 0; k < steps.size(); ++k) {
      const double beta = -dot(changes[k], direction) / dot(steps[k], changes[k]);
      for (std::size_t i = 0; i < x.size(); ++i) direction[i] -= (alpha[k] - beta) * steps[k][i];
    }

    const double slope = dot(gradient, direction);
    if (!(slope < 0)) break;
    Numbers next(x);
    double length = 1, next_value = value;
    for (int halvings = 0;; ++halvings, length /= 2) {
      if (halvings == 30) return evaluations;
      for (std::size_t i = 0; i < x.size(); ++i) next[i] = x[i] + length * direction[i];
      next_value = cost(next, next_gradient);
      ++evaluations;
      if (next_value <= value + 1e-4 * length * slope) break;  // false for NaN as well
    }
    Numbers step(x.size()), change(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      step[i] = next[i] - x[i], change[i] = next_gradient[i] - gradient[i];
    if (dot(step, change) > 1e-10 * dot(change, change)) {
      steps.push_back(step), changes.push_back(change);
      if (steps.size() > remembered) steps.pop_front(), changes.pop_front();
    }
    const bool done = value - next_value < 1e-9 * std::abs(value);
    x = next, gradient = next_gradient, value = next_value;
    if (done) break;
  }
  return evaluations;
}
