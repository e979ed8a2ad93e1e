// Data sets: making them from an experiment, and reading them.
//
// A data file is HDF5 with one group a split (train, validation, test, ood):
//   time          (n_time)                 saved times
//   resolved      (n_traj, n_time, d)      resolved variables
//   closure       (n_traj, n_time, c)      closure at the saved times
//   closure_mean  (n_traj, n_time-1, c)    its mean over the interval that follows each saved time
//   parameters    (n_traj, p)              where there are any: numbers that are constant in a trajectory
//   inputs        (n_traj, n_time, f)      where there are any: forcing, numbers that drive the system
//   clock         (n_traj)                 where recordings begin at other times than 0: what [data.given] adds to `time`
// A closure whose dataset has the attribute "masked" is NaN where nobody knows it: it counts in no loss and no metric.
// The root's attributes hold the experiment's text, the seed and the program's version: the file says what it
// is and how to make it again.
#pragma once

#include <mac/experiment.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mac {

struct GenerateOptions {
  int threads = 0;  // 0: all cores
  bool quiet = false;
};

/// Simulates the full model and writes the data file. Trajectory i is the same bytes whatever the thread
/// count and whatever else is generated. Memory: one trajectory per thread.
void generate(const Experiment& experiment, const std::string& path, const GenerateOptions& options);

/// A split in memory, as it is written: trajectories x saved times x variables, row-major.
struct SplitArrays {
  std::string name;
  std::span<const double> resolved;         // (n_traj, n_time, d)
  std::span<const double> closure;          // (n_traj, n_time, c)
  std::span<const double> closure_mean;     // (n_traj, n_time-1, c)
  std::span<const double> parameters = {};  // (n_traj, p), of the experiment's data.parameters
  std::span<const double> forcing = {};     // (n_traj, n_time, f), of its data.forcing
};

/// Writes a data file from trajectories that came from elsewhere. The experiment says what they are: every
/// split of its [data], with as many trajectories and times, must be there. Throws UsageError naming the
/// split and array whose size differs or that holds a number that is not finite.
void write_data(const Experiment& experiment, const std::vector<SplitArrays>& splits,
                const std::string& path);

/// One split of a data file. Reads are checked against the split's bounds.
class DataSplit {
 public:
  DataSplit(DataSplit&&) noexcept;
  ~DataSplit();

  const std::string& name() const;
  std::size_t trajectories() const;
  std::size_t times() const;
  std::size_t resolved_size() const;
  std::size_t closure_size() const;
  const std::vector<double>& time() const;
  const std::string& label(std::size_t trajectory) const;  // "sin x", or empty
  bool masked() const;                                     // the closure is NaN where it is not known

  // `count` consecutive times of one trajectory, row-major (count, variables).
  void read_resolved(std::size_t trajectory, std::size_t first, std::size_t count, double* out) const;
  void read_closure(std::size_t trajectory, std::size_t first, std::size_t count, double* out) const;
  void read_closure_mean(std::size_t trajectory, std::size_t first, std::size_t count, double* out) const;

  // What is no unknown: parameters of the trajectory, constant in time, then forcing, then formulas; (count, e). Beyond
  // the saved times forcing stays as it was at the end, while formulas go on.
  const std::vector<std::string>& input_names() const;
  void read_inputs(std::size_t trajectory, std::size_t first, std::size_t count, double* out) const;
  const std::vector<std::string>& parameter_names() const;
  std::span<const double> parameters(std::size_t trajectory) const;  // (p)
  /// The equations of each trajectory, where parameters of the system vary; empty: all have the experiment's.
  const std::vector<std::shared_ptr<const System>>& systems() const;

 private:
  friend class DataFile;
  struct Impl;
  explicit DataSplit(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The least and the largest value of each resolved variable.
struct ResolvedRange {
  std::vector<double> low, high;  // (d)
};

class DataFile {
 public:
  /// Throws Error naming the file and what is wrong with it.
  static DataFile open(const std::string& path);
  DataFile(DataFile&&) noexcept;
  ~DataFile();

  const std::string& path() const;
  const Experiment& experiment() const;
  /// Puts the equations in place that the file cannot hold: a recorded system's, given as a function.
  void set_system(std::shared_ptr<const System> system);
  std::vector<std::string> splits() const;
  bool has(const std::string& split) const;
  DataSplit split(const std::string& name) const;  // UsageError if the file has no such split

  // Worked out when first asked for; not for several threads at once.
  /// Hash of the file's bytes: the name by which rollouts refer to their data.
  const std::string& content() const;
  /// Of the split train; null where there is none.
  const ResolvedRange* training_range() const;
  /// Of the parameters in the split train; none where there is no such split, or no parameter.
  std::optional<ResolvedRange> parameter_range() const;

 private:
  struct Impl;
  explicit DataFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Throws UsageError unless the data are of the experiment's system and closure step.
void check_data(const Experiment& experiment, const DataFile& data);

}  // namespace mac
