// Writing one split of a data file, trajectory by trajectory.
#pragma once

#include <mac/data.hpp>
#include <optional>

#include "io/hdf5.hpp"

namespace mac {

class SplitWriter {
 public:
  SplitWriter(h5::File& file, const SplitPlan& split, const DataPlan& data, const System& system);

  /// (n_time, d), (n_time, c), (n_time-1, c)
  void write(std::size_t index, const double* resolved, const double* closure, const double* closure_mean);
  /// The closures are NaN where nobody knows them.
  void set_masked();
  /// (p) and (n_time, f), where the experiment's data have them.
  void write_inputs(std::size_t index, const double* parameters, const double* forcing);

 private:
  std::size_t times_, d_, c_, p_, f_;
  h5::Dataset resolved_, closure_, closure_mean_;
  std::optional<h5::Dataset> parameters_, forcing_;
};

}  // namespace mac
