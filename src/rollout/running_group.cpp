#include "rollout/running_group.hpp"

namespace mac {

namespace {

/// A step in substeps or by ETDRK4.
void advance_columns(CoupledColumns& columns, ClosureGroup& group, const GroupStep& step, double* y) {
  auto* const stages = dynamic_cast<PredictsStages*>(&group);
  if (step.held.hold == Hold::stage && stages)  // the first stage is the prediction at y itself
    columns.step_by_stages(
        [&](double fraction, const double* at) {
          return fraction == 0 ? step.closure : stages->predict_stage(at);
        },
        y);
  else
    columns.step(step.closure, step.previous, y);
}

}  // namespace

RunningGroup::RunningGroup(ClosureGroup& group, const GroupTask& task, GroupStart start)
    : y(std::move(start.y)), group_(group), task_(task), has_closure_(task.continued) {
  const std::size_t size = task.count * task.system.closure_size();
  closure = task.continued ? std::move(start.closure) : std::vector<double>(size);
  previous = task.continued ? std::move(start.previous) : std::vector<double>(size);
  if (task.continued) group.restore_memory(start.memory.data());
  if (!task.dt.is_one_rk4_step() && !dynamic_cast<const HasIntegrator*>(&group))
    columns_.emplace(task.system, task.dt, task.held, task.count, task.systems);
}

void RunningGroup::predict(std::size_t step) {
  if (!std::exchange(has_closure_, false)) group_.predict(step, y.data(), closure.data());
}

void RunningGroup::advance(std::size_t step) {
  const GroupStep now{task_.system, task_.dt,       task_.held,
                      task_.count,  closure.data(), step > 0 ? previous.data() : nullptr,
                      task_.systems};
  if (columns_)
    advance_columns(*columns_, group_, now, y.data());
  else
    group_.advance(step, now, y.data());
  std::swap(closure, previous);
}

}  // namespace mac
