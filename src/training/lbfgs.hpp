// L-BFGS (Nocedal & Wright, Numerical Optimization, algorithms 7.4, 3.5 and 3.6): a quasi-Newton step on a loss that
// stays the same from step to step, for the end of a training.
//
//   d = -H g,   w <- w + a d,   s = a d,   y = g(w + a d) - g(w)
//
// H is the inverse of the Hessian as the last m pairs (s, y) know it, from gamma = s.y / y.y times the identity on.
// The line search leaves with the strong Wolfe conditions
//
//   f(w + a d) <= f + c1 a g.d,   |g(w + a d).d| <= c2 |g.d|
//
// or, where rounding hides them, with the best point it has seen. A step that finds nothing better forgets the pairs
// and goes down the gradient; where that finds nothing either, the weights stay.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "training/optimiser_state.hpp"

namespace mac {

template <class T>
class Lbfgs {
 public:
  /// The loss at some weights; its gradient (parameter_count) is overwritten.
  using Function = std::function<double(std::span<const T> weights, std::span<T> gradient)>;

  struct Step {
    double loss = 0, gradient_norm = 0;  // before the step
    double length = 0;                   // of the step in the weights; 0: there was nothing to gain
  };

  static constexpr std::size_t most_pairs = 50;

  /// `first_length` is the length of a step of which no pair knows anything.
  Lbfgs(Function function, std::size_t parameters, double first_length);

  Step step(std::span<T> weights);

  /// The pairs, oldest first. Loss and gradient are worked out again by who goes on.
  OptimiserState<T> state() const;
  void restore(const OptimiserState<T>& state);

 private:
  struct Point {
    double step = 0, loss = 0, slope = 0;  // slope: along the direction
    std::vector<T> gradient;
  };

  void find_direction();
  double try_direction(std::span<T> weights);
  Point at(std::span<const T> weights, double step);
  Point search(std::span<const T> weights, double first);
  Point zoom(std::span<const T> weights, Point low, Point high);
  void remember(double step, const std::vector<T>& gradient);

  Function function_;
  std::size_t n_;
  double first_length_;
  bool known_ = false;  // loss_ and gradient_ are those of the weights
  double loss_ = 0;
  std::vector<T> gradient_, direction_, trial_;
  std::vector<std::vector<T>> s_, y_;  // the pairs, oldest first
};

}  // namespace mac
