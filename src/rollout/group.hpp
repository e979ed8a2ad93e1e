// A group of trajectories that are rolled out together: what goes in and what comes out.
#pragma once

#include <array>
#include <mac/reduced_step.hpp>
#include <mac/rollout.hpp>
#include <vector>

namespace mac {

/// A group of a model whose equations bring their own integrator: always advanced by ClosureGroup::advance.
class HasIntegrator {
 public:
  virtual ~HasIntegrator() = default;
};

/// A group that predicts closures within a step as well, for the hold stage in substeps.
class PredictsStages {
 public:
  virtual ~PredictsStages() = default;
  /// At the states y (group, resolved_size) of a stage, from the memory before the step; (group, closure_size), good
  /// until the next call.
  virtual const double* predict_stage(const double* y) = 0;
};

/// The start of a group: states, and for a continued rollout everything at its last time.
struct GroupStart {
  std::vector<double> y;                  // (count, d)
  std::vector<double> truth;              // (count, history + 1, d)
  std::vector<double> closure, previous;  // (count, c); empty unless continued
  std::vector<double> memory;
  std::vector<double> blow_up_time;  // (count)
  // What the data give from outside, of a group that a model rolls out by itself: names and (count, times, names).
  std::vector<std::string> given_names = {};
  std::vector<double> given = {};
};

/// What a group's rollout covers.
struct GroupTask {
  const System& system;
  HeldClosure held;
  ReducedStep dt;                   // the closure step
  const std::vector<double>& time;  // of the rollout
  std::size_t first_in_data;        // index of time[0] in the data
  std::size_t history;              // the model is given the truth up to and including this index
  bool continued;
  std::size_t count;                                            // trajectories
  std::span<const std::shared_ptr<const System>> systems = {};  // of each, where parameters vary
};

/// A group of trajectories, (count, n_time, ...).
struct GroupResult {
  std::vector<double> resolved, closure, blow_up_time, memory;
  std::vector<double> seconds_per_step;  // (n_time)
  MemberArrays members = {};             // of several, whose means the others are
};

/// What travels from rank to rank.
inline std::array<std::vector<double>*, 9> arrays(GroupResult& result) {
  MemberArrays& members = result.members;
  return {&result.resolved, &result.closure,          &result.blow_up_time,
          &result.memory,   &result.seconds_per_step, &members.resolved,
          &members.closure, &members.blow_up_time,    &members.memory};
}

}  // namespace mac
