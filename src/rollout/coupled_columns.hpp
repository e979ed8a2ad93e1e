// coupled_step for many trajectories at once: the reduced right-hand side is called once a stage, not once a
// stage and trajectory. The numbers are those of coupled_step.
#pragma once

#include <mac/coupling.hpp>
#include <vector>

namespace mac {

class CoupledColumns {
 public:
  CoupledColumns(const System& system, double dt, HeldClosure held, std::size_t count);

  /// Advances y (count, d) by dt; closure and previous (count, c), previous null in the first step.
  void step(const double* closure, const double* previous, double* y);

 private:
  const System& system_;
  double dt_;
  HeldClosure held_;
  std::size_t count_;
  std::vector<double> stage_, rates_;  // (count, d), (stages, count, d)
};

}  // namespace mac
