// The coupled step and its gradient for many trajectories at once, in as many substeps and by the method that the
// ReducedStep says: the reduced right-hand side is called once a stage, not once a stage and trajectory. In one
// step of RK4 the numbers are those of coupled_step.
//
// A substep m of n covers the fractions m/n to (m+1)/n of the closure step; the hold's line runs over the whole step,
// so that it does not depend on how many substeps there are.
#pragma once

#include <mac/coupling.hpp>
#include <mac/held_rk4.hpp>
#include <mac/reduced_step.hpp>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "coupling/exponential_step.hpp"

namespace mac {

class CoupledColumns {
 public:
  /// `systems`: the equations of each, where they are not all the same; outlives this. ETDRK4 takes one only.
  CoupledColumns(const System& system, ReducedStep dt, HeldClosure held, std::size_t count,
                 std::span<const std::shared_ptr<const System>> systems = {});

  /// Advances y (count, d) by dt; closure and previous (count, c), previous null in the first step.
  void step(const double* closure, const double* previous, double* y);

  /// The same with closures that depend on the state of the stage: closure_at(fraction, y_i) gives those at this
  /// fraction of the step, (count, c).
  template <class ClosureAt>
  void step_by_stages(ClosureAt&& closure_at, double* y) {
    for (std::size_t m = 0; m < dt_.substeps; ++m)
      substep(y, [&](std::size_t i, const double* at) {
        return held_rk4::StageClosure{closure_at(fraction(m, i), at), nullptr, 0};
      });
  }

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

  /// Of the closure step, at stage i of substep m.
  double fraction(std::size_t m, std::size_t i) const {
    return (static_cast<double>(m) + held_rk4::a(i)) / static_cast<double>(dt_.substeps);
  }
  double share(bool has_previous, std::size_t m, std::size_t i) const {
    return held_rk4::share(held_, has_previous, fraction(m, i));
  }
  double h() const { return dt_.dt / static_cast<double>(dt_.substeps); }
  held_rk4::Columns columns() const {
    const auto targets = system_.closure_targets();
    return {count_, system_.resolved_size(), targets.size(), targets.data()};
  }

  /// The stages of a substep from y; closure_at(i, y_i) gives the StageClosure.
  template <class ClosureAt>
  void compute_stages(const double* y, ClosureAt&& closure_at) {
    if (exponential_)
      exponential_->compute_stages(closure_at, y);
    else
      held_rk4::compute_stages(
          columns(), h(), y, room_,
          [&](std::size_t, const double* state, double* rate) { rates(state, rate); }, closure_at);
  }
  template <class ClosureAt>
  void substep(double* y, ClosureAt&& closure_at) {
    if (exponential_) {
      exponential_->step(closure_at, y);
      return;
    }
    compute_stages(y, closure_at);
    held_rk4::finish(room_.size, h(), {room_.rate(0), room_.rate(1), room_.rate(2), room_.rate(3)}, y);
  }
  auto line(std::size_t m, const double* closure, const double* previous) const {
    return [=, this](std::size_t i, const double*) {
      return held_rk4::StageClosure{closure, previous, share(previous != nullptr, m, i)};
    };
  }
  void rates(const double* y, double* dydt) const;  // (count, d)
  void substep_adjoint(std::size_t m, bool has_previous, const double* d_next, double* d_y, double* d_closure,
                       double* d_previous);

  const System& system_;
  ReducedStep dt_;
  HeldClosure held_;
  std::size_t count_;
  std::span<const std::shared_ptr<const System>> systems_;
  Room room_;
  std::optional<ExponentialStep> exponential_;
  std::vector<double> d_rate_, d_stage_;       // (count, d)
  std::vector<double> begins_, d_end_, d_at_;  // (substeps, count, d): states before them; (count, d)
};

}  // namespace mac
