// A group of trajectories on its way: states, closures and memory, step after step.
#pragma once

#include <mac/rollout.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "coupling/coupled_columns.hpp"
#include "rollout/group.hpp"

namespace mac {

class RunningGroup {
 public:
  /// Both outlive it.
  RunningGroup(ClosureGroup& group, const GroupTask& task, GroupStart start);

  /// Closures from the states now; nothing to do in the first step of a continued rollout, which has them.
  void predict(std::size_t step);
  /// The states of the next step, after predict; what was predicted is then the closure before it.
  void advance(std::size_t step);

  ClosureGroup& group() { return group_; }
  double* state(std::size_t i) { return y.data() + i * task_.system.resolved_size(); }
  double* closure_of(std::size_t i) { return closure.data() + i * task_.system.closure_size(); }

  std::vector<double> y;                  // (count, d)
  std::vector<double> closure, previous;  // (count, c)

 private:
  ClosureGroup& group_;
  const GroupTask& task_;
  bool has_closure_;  // is given, not to be predicted
  std::optional<CoupledColumns> columns_;
};

}  // namespace mac
