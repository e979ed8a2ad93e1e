// A rollout file: predictions, and where the truth beside them is. Its layout, but for what
// rollout() in mac/rollout.hpp says:
//   /                     model, hold, target; data_file, data_content unless every split has its truth
//   inside;
//                         validation_horizon, validation_error
//   /training_range (2, d)  least and largest value of each resolved variable in the training data
//   /parameter_range (2, p)  likewise of the parameters that vary, where some do
//   /SPLIT/parameters (n_traj, p)  those of each trajectory
//   /SPLIT                first_in_data: the data's saved time with which the rollout begins
//   /SPLIT/lyapunov, true_lyapunov  of the split's first trajectories
//   /SPLIT/members        of an ensemble: count; resolved, closure, blow_up_time, memory of each run, one after
//                         the other in rows (trajectory, member)
#pragma once

#include <mac/rollout.hpp>
#include <map>
#include <vector>

#include "io/hdf5.hpp"
#include "rollout/group.hpp"

namespace mac {

/// Writing, group of trajectories by group.
class RolloutSplitWriter {
 public:
  /// `time` may begin after the data's first time and end beyond its last.
  RolloutSplitWriter(h5::File& file, const DataSplit& split, const System& system, std::size_t trajectories,
                     std::size_t members, const std::vector<double>& time, std::size_t first_in_data,
                     std::optional<std::size_t> memory_size, const RolloutOptions& options);

  /// Trajectories first, first+1, ...
  void write(const DataSplit& split, std::size_t first, std::size_t count, const GroupResult& result);
  /// Of the split's first trajectories; `truth` may be empty.
  void write_exponents(const std::vector<double>& model, const std::vector<double>& truth);
  /// Of the first group.
  const std::vector<double>& seconds_per_step() const { return seconds_per_step_; }

 private:
  h5::File& file_;
  std::string split_;
  std::size_t times_, first_in_data_, d_, c_, members_;
  std::optional<std::size_t> memory_size_;
  h5::Dataset resolved_, closure_, blow_up_time_;
  std::optional<h5::Dataset> true_resolved_, true_closure_;
  std::optional<h5::Dataset> memory_;
  std::optional<h5::Dataset> member_resolved_, member_closure_, member_blow_up_time_;
  std::vector<double> seconds_per_step_;
};

/// Wall times lie beside the rollout, which is the same bytes whenever it is made: ROLLOUT.times.json,
/// {"rollout": content of the file, "seconds_per_step": {"test": [...]}}.
using SecondsPerStep = std::map<std::string, std::vector<double>>;  // by split, one number a time
void write_step_times(const std::string& rollout, const SecondsPerStep& times);
/// None where there are none, or only those of an earlier rollout.
SecondsPerStep read_step_times(const std::string& rollout);

/// The rollout file at `path` refers to the data, from its own folder.
void write_data_reference(h5::File& file, const std::string& path, const DataFile& data);
void write_training_range(h5::File& file, const ResolvedRange& range);
void write_parameter_range(h5::File& file, const ResolvedRange& range);
void write_validation(h5::File& file, const ValidationError& validation);

/// `count` times of a trajectory of the data from time `first` on, (count, d) and (count, c); NaN beyond the
/// data.
struct Truth {
  std::vector<double> resolved, closure;
};
Truth read_truth(const DataSplit& split, std::size_t trajectory, std::size_t first, std::size_t count);

/// The data files that rollouts refer to: found, checked by content, and kept open.
class RolloutData {
 public:
  /// `given`: this file, wherever the rollouts say theirs is.
  explicit RolloutData(std::string given = {}) : given_(std::move(given)) {}

  /// The file that the rollout refers to as `stored`, a path from its own folder; see RolloutFile::open.
  const DataFile& find(const std::string& rollout, const std::string& stored, const std::string& content);

 private:
  struct Candidate {
    std::string content;
    std::optional<DataFile> file;
  };
  std::string given_;
  std::map<std::string, Candidate> candidates_;
};

/// An open rollout file: what it says of itself, and its arrays when they are asked for.
class RolloutReader {
 public:
  explicit RolloutReader(const std::string& path);

  const std::string& path() const { return header_.path; }
  const std::string& model() const { return header_.model; }
  const RolloutFile& header() const { return header_; }  // without splits
  std::vector<std::string> splits() const;
  bool has(const std::string& split) const;
  std::size_t trajectories(const std::string& split) const;
  std::vector<double> seconds_per_step(const std::string& split) const;  // empty: not recorded

  /// Trajectories first, first+1, ... of a split, with memory, without the truth.
  RolloutSplit read(const std::string& split, std::size_t first = 0, std::size_t count = SIZE_MAX) const;
  /// The same with the truth.
  RolloutSplit read(const std::string& split, RolloutData& data, std::size_t first = 0,
                    std::size_t count = SIZE_MAX) const;

 private:
  std::vector<double> read_rows(const std::string& split, const std::string& name, std::size_t width,
                                const RolloutSplit& of, std::size_t first) const;
  std::vector<double> read_members(const std::string& split, const std::string& name, std::size_t width,
                                   const RolloutSplit& of, std::size_t first) const;
  h5::File file_;
  RolloutFile header_;
};

}  // namespace mac
