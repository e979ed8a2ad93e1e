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

  /// A host step begins at y, of any layout.
  template <class Layout>
  void begin(const Layout& y) {
    const std::size_t inputs = model().model.input_size();
    for (std::size_t j = 0; j < columns(); ++j)
      put(StridedLayout<double>{rows(now_.data(), inputs)}, j, inputs,
          [column = y.column(j)](std::size_t i) { return column[i]; });
    begin();
  }
  /// The closure at a fraction of the host step that begin() opened, to any layout.
  template <class Layout>
  void closure_at(double fraction, const Layout& closure) const {
    if (begun_ == 0) throw UsageError("no host step has begun yet");
    if (closure_steps_ == 1) {
      const auto k = static_cast<double>((begun_ - 1) % host_steps_);
      return state_.closure_at(hold_, (k + fraction) / static_cast<double>(host_steps_), closure);
    }
    const std::size_t outputs = model().model.shape.d_out;
    const double share = share_of_line(fraction);
    for (std::size_t j = 0; j < columns(); ++j)
      put(closure, j, outputs, [&](std::size_t i) {
        return held_rk4::line(closure_[j * outputs + i], previous_[j * outputs + i], share);
      });
  }

  /// All that belongs in a restart file beside the state: host steps begun, the last y and the last two closures,
  /// (columns, inputs), (columns, outputs) each.
  std::size_t saved_size() const { return 1 + y_.size() + closure_.size() + previous_.size(); }
  void save(double* numbers) const;
  void restore(const double* numbers);

 private:
  /// At now_.
  void begin();
  /// Where a fraction of the host step lies on the line through the last two closures.
  double share_of_line(double fraction) const;

  RuntimeState& state_;
  Hold hold_;
  std::size_t host_steps_ = 1, closure_steps_ = 1;
  std::uint64_t begun_ = 0;
  std::vector<double> now_, y_,
      between_;  // (columns, inputs): y of this host step, of the last one; between them
  std::vector<double> closure_, previous_;  // (columns, outputs): at the start of the last two host steps
};

}  // namespace mac
