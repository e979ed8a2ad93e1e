#include <mac/baselines.hpp>
#include <mac/error.hpp>

#include "experiment/baseline_kinds.hpp"
#include "io/atomic_file.hpp"
#include "io/input_file.hpp"
#include "io/output_lock.hpp"

namespace mac {

std::string train_baseline(const Experiment& experiment, const ModelPlan& plan, const DataFile& data,
                           const std::string& path, int threads, bool quiet) {
  check_data(experiment, data);
  check_output(path, {experiment.config.source(), data.path()});
  const OutputLock lock(path);
  check_writable(path);
  return plan.baseline->train({experiment, data, plan.name, path, threads, quiet});
}

}  // namespace mac
