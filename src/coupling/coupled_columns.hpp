// coupled_step and its gradient for many trajectories at once: the reduced right-hand side is called once a
// stage, not once a stage and trajectory. The numbers are those of coupled_step.
#pragma once

#include <mac/coupling.hpp>
#include <mac/held_rk4.hpp>
#include <memory>
#include <span>
#include <vector>

namespace mac {

class CoupledColumns {
 public:
  /// `systems`: the equations of each, where they are not all the same; outlives this.
  CoupledColumns(const System& system, double dt, HeldClosure held, std::size_t count,
                 std::span<const std::shared_ptr<const System>> systems = {});

  /// Advances y (count, d) by dt; closure and previous (count, c), previous null in the first step.
  void step(const double* closure, const double* previous, double* y);

  /// From d_next *adds* to d_y (count, d), d_closure and d_previous (count, c), as coupled_step_adjoint does.
  /// y is the state before the step.
  void adjoint(const double* closure, const double* previous, const double* y, const double* d_next,
               double* d_y, double* d_closure, double* d_previous);

 private:
  /// States and rates of all stages, (stages, count, d): the gradient needs them all.
  struct Room {
    explicit Room(std::size_t n) : size(n), states(held_rk4::stages * n), rates(states.size()) {}
    double* state(std::size_t i) { return states.data() + i * size; }
    double* rate(std::size_t i) { return rates.data() + i * size; }
    std::size_t size;
    std::vector<double> states, rates;
  };

  double share(bool has_previous, std::size_t stage) const;
  void rates(const double* y, double* dydt) const;  // (count, d)
  void compute_stages(const double* closure, const double* previous, const double* y);

  const System& system_;
  double dt_;
  HeldClosure held_;
  std::size_t count_;
  std::span<const std::shared_ptr<const System>> systems_;
  Room room_;
  std::vector<double> d_rate_, d_stage_;  // (count, d)
};

}  // namespace mac
