// Coupled rollouts: the reduced equations advanced by RK4 with a closure model in tandem.
//
//   y_{n+1} = RK4 step of dy/dt = R^(y) + C over one closure step,   C from the model at y_n (and its memory)
//
// A model that is an integro-differential equation (mac/baselines.hpp) brings its own integrator instead.
#pragma once

#include <cstdint>
#include <mac/coupling.hpp>
#include <mac/data.hpp>
#include <mac/precision.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mac {

/// From its absolute value on a resolved variable or closure has blown up: far beyond any of them, far below
/// overflow.
inline constexpr double blow_up_bound = 1e12;

struct Model;      // mac/model.hpp
struct GroupTask;  // see rollout/group.hpp
struct GroupStart;
struct GroupResult;

/// What a group of trajectories needs to advance over one saved step; arrays are (count, closure_size).
struct GroupStep {
  const System& system;
  double dt;
  HeldClosure held;
  std::size_t count;
  const double* closure;
  const double* previous;                                       // null in the first step
  std::span<const std::shared_ptr<const System>> systems = {};  // of each trajectory, where parameters vary

  const System& system_of(std::size_t i) const { return systems.empty() ? system : *systems[i]; }
};

/// The closure of a group of trajectories that advance together; owns their memory. No trajectory may depend
/// on the others of its group.
class ClosureGroup {
 public:
  virtual ~ClosureGroup() = default;
  /// closure (group, closure_size) for step n from y (group, resolved_size). Called for n = 0, 1, 2, ...
  virtual void predict(std::size_t n, const double* y, double* closure) = 0;
  /// Advances y from step n to n + 1, after predict(n): by coupled_step, unless the model has an integrator
  /// of its own.
  virtual void advance(std::size_t n, const GroupStep& step, double* y);

  // What a trajectory remembers, so that a rollout can be continued bit for bit: numbers per trajectory; none
  // where the model cannot be continued.
  virtual std::optional<std::size_t> memory_size() const { return 0; }
  virtual void save_memory(double* /*memory*/) const {}     // (group, memory_size)
  virtual void restore_memory(const double* /*memory*/) {}  // the next call is advance(n) for n > 0
};

/// Members of an ensemble that a stochastic model may have: far more than anybody runs.
inline constexpr std::size_t most_stochastic_members = 1000;

/// Which of a model's runs from one state.
struct MemberPlan {
  std::uint64_t seed = 0;  // of the noise
  std::size_t member = 0;
  bool apart = false;  // of an ensemble of networks: this one alone, not the mean of all
  bool noise = true;   // false: a stochastic model runs without
};

/// Anything that predicts a closure. Immutable; groups are made per thread.
class ClosureModel {
 public:
  virtual ~ClosureModel() = default;
  virtual std::string name() const = 0;
  virtual HeldClosure held() const = 0;
  /// What a network computes in; none for other models.
  virtual std::optional<Precision> precision() const { return std::nullopt; }
  /// The closure of trajectories first, first+1, ... of the split.
  virtual std::unique_ptr<ClosureGroup> start(const DataSplit& split, std::size_t first,
                                              std::size_t count) const = 0;

  /// How many runs from one state may differ: one of a deterministic model, any number of a stochastic one, one for each
  /// network of an ensemble.
  virtual std::size_t most_members() const { return 1; }
  /// The closure of one of them.
  virtual std::unique_ptr<ClosureGroup> start_member(const DataSplit& split, std::size_t first,
                                                     std::size_t count, const MemberPlan& /*member*/) const {
    return start(split, first, count);
  }

  /// The same computed in float64, which tells runs apart that lie side by side; null: it is so already, or cannot.
  virtual std::unique_ptr<ClosureModel> in_float64() const { return nullptr; }

  /// A model that rolls a whole group out by itself, on a device, says how many trajectories of that many
  /// times it takes at once.
  virtual std::optional<std::size_t> rolls_at_once(std::size_t /*times*/) const { return std::nullopt; }
  virtual GroupResult roll(const GroupTask& task, GroupStart start) const;
};

/// No closure: the Markovian reduced model.
std::unique_ptr<ClosureModel> make_markov();
/// The true closure from the data: what is left is the error of its coupling, the floor of every model.
std::unique_ptr<ClosureModel> make_exact(HeldClosure held);

/// A network in tandem with the reduced equations; its memory is one recurrent state per trajectory. `name`
/// is the model's name in files and tables. It computes in the precision of its file, unless another is
/// given. `system` is whose states it reads: a model that reads all resolved variables does without.
std::unique_ptr<ClosureModel> make_network_closure(const Model& model, const std::string& name,
                                                   HeldClosure held,
                                                   std::optional<Precision> precision = std::nullopt,
                                                   std::shared_ptr<const System> system = nullptr);
/// The same on the CUDA device in float32, network and reduced equations in one kernel; within rounding of
/// the CPU's. Throws Error without a device, UsageError for the hold stage.
std::unique_ptr<ClosureModel> make_device_network_closure(const Model& model, const std::string& name,
                                                          HeldClosure held,
                                                          std::shared_ptr<const System> system = nullptr);

struct RolloutOptions {
  std::vector<std::string>
      splits;       // empty: those of `from`, else test, ood, statistics, where the data has them
  int threads = 0;  // 0: all cores
  bool quiet = false;
  std::optional<double> to = std::nullopt;  // end time; default: the data's. Beyond the data the truth is NaN
  std::string from = {};                    // continue this rollout file of the same model and data
  double history = 0;           // the model reads the true past up to this time before it runs free
  bool time_steps = false;      // record the wall time of every step (the file is then not reproducible)
  bool self_contained = false;  // copy the truth into the file
  std::size_t most = SIZE_MAX;  // the first so many trajectories of each split
  std::size_t members = 1;      // runs from each state; of the split statistics one
  std::uint64_t seed = 0;       // of a stochastic model's noise
  bool noise = true;            // false: a stochastic model runs without
  std::size_t lyapunov = 5;     // the first so many of the split statistics, for its Lyapunov exponents
  std::size_t validation = 0;   // the first so many of the split validation, for the file's validation_error
  std::optional<ResolvedRange> parameter_range = std::nullopt;  // the model's; default: that of the data
};

/// Several runs from each state: rows (n_traj, members).
struct MemberArrays {
  std::vector<double> resolved, closure;  // (n_traj, members, n_time, d or c); empty where there is one
  std::vector<double> blow_up_time;       // (n_traj, members)
  std::vector<double> memory;             // (n_traj, members, memory_size)
};
/// Those of a split.
struct MemberRuns : MemberArrays {
  std::size_t count = 1;
};

/// Rolls the model out from the initial state of every trajectory of the splits and writes a rollout file:
/// per split time, resolved, closure, blow_up_time (n_traj; NaN: none), memory (n_traj, memory_size) at the
/// end. Wall times, if asked for, go to a file beside it, ROLLOUT.times.json. From a blow-up on, that trajectory is NaN; the others go on.
/// The truth stays in the data file, to which the rollout file refers by its path, relative to its own
/// folder, and the hash of its content; with self_contained it is copied as true_resolved and true_closure.
/// The split statistics has the largest Lyapunov exponents of its first runs: of the coupled model, lyapunov, and of the
/// full one where it can be run, true_lyapunov.
/// Of several members, these are the means, lost with the first that blows up; /SPLIT/members has each.
void rollout(const ClosureModel& model, const DataFile& data, const std::string& path,
             const RolloutOptions& options);

/// The error of a model on data that belong to its training: mean over trajectories and resolved variables of
/// the relative L2 error of free rollouts over [0, horizon] of the split validation; infinite after a
/// blow-up.
struct ValidationError {
  double horizon = 0;
  double error = 0;
};

/// One split of a rollout file, in memory.
struct RolloutSplit {
  std::string name;
  std::vector<std::string> labels;              // of the trajectories, empty where they have none
  std::vector<double> time;                     // (n_time)
  std::vector<double> resolved, true_resolved;  // (n_traj, n_time, d)
  std::vector<double> closure, true_closure;    // (n_traj, n_time, c)
  std::vector<double> blow_up_time;             // (n_traj)
  std::vector<double> parameters;               // (n_traj, p), of the experiment's data.parameters
  std::vector<double> memory;                   // (n_traj, memory_size) after the last time
  std::optional<std::size_t> memory_size;       // none: cannot be continued
  MemberRuns members;
  std::vector<double> seconds_per_step;         // (n_time), of the first group; empty: not recorded
  std::vector<double> lyapunov, true_lyapunov;  // of the first runs, NaN: none; empty: not worked out
  std::size_t trajectories() const { return labels.size(); }
};

struct RolloutFile {
  std::string path;
  std::string model;
  HeldClosure held;
  Experiment experiment;
  std::vector<RolloutSplit> splits;
  std::optional<Precision> precision = std::nullopt;       // of a network; none where the file does not say
  std::optional<std::uint64_t> noise_seed = std::nullopt;  // of a stochastic model that ran with its noise
  std::optional<ResolvedRange> training_range = std::nullopt;
  std::optional<ResolvedRange> parameter_range = std::nullopt;  // of the split train; none: none vary
  std::optional<ValidationError> validation = std::nullopt;

  /// The whole file, its truth from the data file that it refers to: where the file says, or beside it under
  /// the same name, or `data`. Error naming both files if that is missing or has another content.
  static RolloutFile open(const std::string& path, const std::string& data = {});
};

/// The same rollouts without a file and without Lyapunov exponents; options.from does not apply.
RolloutFile rollout_in_memory(const ClosureModel& model, const DataFile& data, const RolloutOptions& options);

}  // namespace mac
