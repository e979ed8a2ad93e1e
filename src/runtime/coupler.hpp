// What stands behind a mac_coupler: when the network predicts, and from what, in a host whose step h is not the
// closure step H.
//
//   H = n h   the network predicts at every n-th host step, and the closure in between is that at the fraction
//             (k + f)/n of the closure step, k = 0 .. n−1. Order in H as without a coupler: 1 for the hold zero,
//             2 for linear.
//   h = n H   at the start of a host step the network takes n steps, along the straight line from the state one host
//             step ago to the state now, so that its memory sees states at the distance it was trained with. The
//             line is of order 2 in h. The closure over the host step is the last prediction (zero, order 1 in h), or
//             the line through it and that of the host step before (linear, order 2).
#pragma once

#include "runtime/runtime_state.hpp"

namespace mac {

class RuntimeCoupler {
 public:
  /// The state outlives the coupler. Throws UsageError where neither step is a multiple of the other.
  RuntimeCoupler(RuntimeState& state, double host_step, double closure_step, Hold hold);

  std::size_t columns() const { return state_.columns(); }
  const RuntimeModel& model() const { return state_.model(); }
  /// Host steps in a closure step, and closure steps in a host step: one of them is 1.
  std::size_t host_steps() const { return host_steps_; }
  std::size_t closure_steps() const { return closure_steps_; }
  /// Host steps begun.
  std::uint64_t begun() const { return begun_; }

  /// A host step begins at y (columns, inputs).
  void begin(const double* y);
  /// The closure (columns, outputs) at a fraction of the host step that begin() opened.
  void closure_at(double fraction, double* closure) const;

  /// All that belongs in a restart file beside the state: host steps begun, the last y and the last two closures,
  /// (columns, inputs), (columns, outputs) each.
  std::size_t saved_size() const { return 1 + y_.size() + closure_.size() + previous_.size(); }
  void save(double* numbers) const;
  void restore(const double* numbers);

 private:
  RuntimeState& state_;
  Hold hold_;
  std::size_t host_steps_ = 1, closure_steps_ = 1;
  std::uint64_t begun_ = 0;
  std::vector<double> y_, between_;         // (columns, inputs): of the last host step; on the line from it
  std::vector<double> closure_, previous_;  // (columns, outputs): at the start of the last two host steps
};

}  // namespace mac
