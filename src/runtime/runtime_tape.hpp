// What stands behind a mac_tape: the points that recorded steps started from, and the space in which their
// derivatives are computed. A step's values are computed again when its derivative is asked for, so a record is
// no larger than the memory of the columns.
#pragma once

#include "runtime/runtime_state.hpp"

namespace mac {

class RuntimeTape {
 public:
  /// Throws UsageError for a size that cannot be meant.
  RuntimeTape(std::shared_ptr<const RuntimeModel> model, std::size_t columns, std::size_t most_steps);

  const RuntimeModel& model() const { return *model_; }
  std::size_t columns() const { return columns_; }
  std::size_t steps() const { return steps_; }
  void clear() { steps_ = 0; }

  /// Throws UsageError unless a state is of the tape's model and number of columns.
  void check(const RuntimeState& state) const;
  /// The step that the state would take from y becomes the next one of the tape.
  void record(RuntimeState& state, const Field<const double>& y);
  void forget_last() { --steps_; }

  // Along a recorded step, in physical units; the memory's derivatives are (columns, state_size). Nothing is
  // allocated.
  void tangent(std::size_t step, const Field<const double>& dy, double* dmemory,
               const Field<double>& dclosure);
  void adjoint(std::size_t step, const Field<const double>& gclosure, double* gmemory,
               const Field<double>& gy);
  /// jacobian (columns, outputs, inputs) = dclosure/dy
  void jacobian(std::size_t step, double* jacobian);

 private:
  double* x(std::size_t step) { return x_.data() + step * dx_.size(); }
  double* memory(std::size_t step) { return memory_.data() + step * (memory_.size() / most_steps_); }
  derivative::Point point(std::size_t step) { return {x(step), memory(step)}; }

  std::shared_ptr<const RuntimeModel> model_;
  std::size_t columns_, most_steps_, steps_ = 0;
  derivative::Work work_;
  std::vector<double> x_, memory_;  // (steps, columns, inputs), (steps, columns, state_size)
  std::vector<double> dx_, dc_;     // (columns, inputs), (columns, outputs), normalised
  ColumnFrames frames_;             // of columns, step after step
};

}  // namespace mac
