// Writing a rollout file, group of trajectories by group.
#pragma once

#include <mac/rollout.hpp>
#include <vector>

#include "io/hdf5.hpp"
#include "rollout/group.hpp"

namespace mac {

class RolloutSplitWriter {
 public:
  /// `time` may begin after the data's first time and end beyond its last.
  RolloutSplitWriter(h5::File& file, const DataSplit& split, const System& system,
                     const std::vector<double>& time, std::size_t first_in_data,
                     std::optional<std::size_t> memory_size, bool time_steps);

  /// Trajectories first, first+1, ... with the truth beside them, NaN where the data has none.
  void write(const DataSplit& split, std::size_t first, std::size_t count, const GroupResult& result);

 private:
  std::size_t times_, first_in_data_, d_, c_;
  std::optional<std::size_t> memory_size_;
  h5::Dataset resolved_, closure_, true_resolved_, true_closure_, blow_up_time_;
  std::optional<h5::Dataset> memory_, seconds_per_step_;
};

}  // namespace mac
