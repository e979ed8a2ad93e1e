// How the reduced equations get over one closure step: in one step, in several, and by which method.
#pragma once

#include <cstddef>
#include <string>

namespace mac {

enum class StepMethod {
  rk4,    // classical Runge–Kutta
  etdrk4  // exponential time differencing: the linear part that the system declares is exact
};

/// A closure step of length dt in `substeps` equal steps. A plain number is one step of RK4.
struct ReducedStep {
  double dt = 0;
  std::size_t substeps = 1;
  StepMethod method = StepMethod::rk4;

  ReducedStep() = default;
  ReducedStep(double length, std::size_t pieces = 1, StepMethod by = StepMethod::rk4)
      : dt(length), substeps(pieces), method(by) {}
  operator double() const { return dt; }
  bool is_one_rk4_step() const { return substeps == 1 && method == StepMethod::rk4; }
};

inline constexpr std::size_t most_substeps = 1000;

/// [rollout] of an experiment: what it leaves open is chosen by the stiffness of the reduced equations.
struct RolloutPlan {
  std::size_t substeps = 0;         // 0: chosen
  std::string integrator = "auto";  // rk4, etdrk4, or auto: chosen
  std::size_t members = 1;          // runs from each state of test and ood, of models that have several
  bool operator==(const RolloutPlan&) const = default;
};

}  // namespace mac
