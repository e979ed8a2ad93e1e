// The closure of recorded states: what the reduced right-hand side leaves out of dy/dt, by differences of second
// or fourth order, one-sided at the ends; and the mean over each step with which the reduced RK4 step lands on the next state.
#pragma once

#include <mac/system.hpp>
#include <vector>

namespace mac {

class Tendency {
 public:
  /// `order` of the differences: 2 or 4.
  Tendency(const System& system, double dt, std::size_t order) : system_(&system), dt_(dt), order_(order) {}
  static constexpr std::size_t fewest_times(std::size_t order) { return order + 1; }
  /// States that are needed beside those asked for, for the estimate of the error.
  std::size_t halo() const { return order_; }
  /// What is computed next has these equations.
  void use(const System& system) { system_ = &system; }

  /// Of the states `first` to `first + count` of a trajectory of `times`. `states` are those from `states_first` on:
  /// all asked for and `halo` on either side, as far as the trajectory goes. closure (count, c), mean (count, c), of
  /// which the trajectory's last state has none.
  void compute(const double* states, std::size_t states_first, std::size_t times, std::size_t first,
               std::size_t count, double* closure, double* mean);

  /// Of all that was computed: error of the differences relative to the closure; NaN where trajectories are too short.
  double error() const;
  /// Share of dy/dt - rhs that lies in equations without a closure.
  double unexplained() const;

 private:
  void step_mean(const double* from, const double* to, double* mean) const;

  const System* system_;
  double dt_;
  std::size_t order_;
  double closure_squares_ = 0, all_squares_ = 0, error_squares_ = 0;
  std::size_t closure_count_ = 0, error_count_ = 0;
};

}  // namespace mac
