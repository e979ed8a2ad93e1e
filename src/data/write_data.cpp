#include "data/write_data.hpp"

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>

#include "data/provenance.hpp"
#include "data/split_writer.hpp"
#include "io/hdf5_output.hpp"
#include "io/input_file.hpp"

namespace mac {

namespace {

const SplitArrays& arrays_of(const SplitPlan& plan, const std::vector<SplitArrays>& splits) {
  const auto found = std::ranges::find(splits, plan.name, &SplitArrays::name);
  if (found == splits.end())
    throw UsageError("data: the experiment has a split {}, which was not given", plan.name);
  return *found;
}

/// `masked`: NaN says that nobody knows the value.
void check(const SplitPlan& plan, const char* array, std::span<const double> values, std::size_t times,
           std::size_t variables, bool masked = false) {
  const std::size_t expected = plan.trajectories * times * variables;
  if (values.size() != expected)
    throw UsageError("data: {} of split {} has {} numbers, expected ({}, {}, {})", array, plan.name,
                     values.size(), plan.trajectories, times, variables);
  const auto bad = std::ranges::find_if_not(
      values, [&](double value) { return std::isfinite(value) || (masked && std::isnan(value)); });
  if (bad == values.end()) return;
  const auto at = static_cast<std::size_t>(bad - values.begin());
  throw UsageError("data: {} of split {} is {} in trajectory {} at time {}, variable {}", array, plan.name,
                   *bad, at / (times * variables), at / variables % times, at % variables);
}

}  // namespace

void write_data(const Experiment& experiment, const std::vector<SplitArrays>& splits,
                const std::string& path) {
  write_data(experiment, splits, path, {});
}

void write_data(const Experiment& experiment, const std::vector<SplitArrays>& splits, const std::string& path,
                const std::set<std::string>& masked) {
  const DataPlan& data = experiment.data;
  const System& system = *experiment.system;
  const std::size_t d = system.resolved_size(), c = system.closure_size();
  for (const SplitArrays& given : splits)
    if (std::ranges::find(data.splits, given.name, &SplitPlan::name) == data.splits.end())
      throw UsageError("data: the experiment has no split {}", given.name);
  for (const SplitPlan& plan : data.splits) {
    const SplitArrays& arrays = arrays_of(plan, splits);
    check(plan, "resolved", arrays.resolved, plan.intervals + 1, d);
    check(plan, "closure", arrays.closure, plan.intervals + 1, c, masked.contains(plan.name));
    check(plan, "closure_mean", arrays.closure_mean, plan.intervals, c, masked.contains(plan.name));
    check(plan, "parameters", arrays.parameters, 1, data.parameters.size());
    check(plan, "forcing", arrays.forcing, plan.intervals + 1, data.forcing.size());
  }

  check_output(path, {experiment.config.source()});
  Hdf5Output output(path);
  h5::File& file = output.file;
  write_provenance(file, "data", experiment);
  for (const SplitPlan& plan : data.splits) {
    const SplitArrays& arrays = arrays_of(plan, splits);
    SplitWriter writer(file, plan, data, system);
    if (masked.contains(plan.name)) writer.set_masked();
    const std::size_t times = plan.intervals + 1;
    for (std::size_t i = 0; i < plan.trajectories; ++i) {
      writer.write(i, arrays.resolved.data() + i * times * d, arrays.closure.data() + i * times * c,
                   arrays.closure_mean.data() + i * (times - 1) * c);
      writer.write_inputs(i, arrays.parameters.data() + i * data.parameters.size(),
                          arrays.forcing.data() + i * times * data.forcing.size());
    }
  }
  output.commit();
}

}  // namespace mac
