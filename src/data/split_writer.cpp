#include "data/split_writer.hpp"

#include <algorithm>

#include "data/split_group.hpp"

namespace mac {

namespace {

/// A split that continues another starts where that one ends.
double start_time(const SplitPlan& split, const DataPlan& data) {
  if (!split.continues) return 0;
  const SplitPlan& parent = *std::ranges::find(data.splits, *split.continues, &SplitPlan::name);
  return start_time(parent, data) + parent.horizon;
}

h5::File& create_group(h5::File& file, const SplitPlan& split, const DataPlan& data, const System& system) {
  std::vector<std::string> labels(split.trajectories);
  if (split.initial)
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = split.initial->label(i);
  const double start = start_time(split, data);
  std::vector<double> time(split.intervals + 1);
  for (std::size_t t = 0; t < time.size(); ++t)
    time[t] = start + static_cast<double>(t) * data.closure_step();
  create_split_group(file, split.name, labels, time, system.time_unit());
  return file;
}

}  // namespace

SplitWriter::SplitWriter(h5::File& file, const SplitPlan& split, const DataPlan& data, const System& system)
    : times_(split.intervals + 1),
      d_(system.resolved_size()),
      c_(system.closure_size()),
      p_(data.parameters.size()),
      f_(data.forcing.size()),
      resolved_(create_series(create_group(file, split, data, system), split.name, "resolved",
                              split.trajectories, times_, system.resolved_names())),
      closure_(
          create_series(file, split.name, "closure", split.trajectories, times_, system.closure_names())),
      closure_mean_(create_series(file, split.name, "closure_mean", split.trajectories, times_ - 1,
                                  system.closure_names())) {
  if (p_ > 0) parameters_ = create_parameters(file, split.name, split.trajectories, data.parameters);
  if (f_ > 0) forcing_ = create_series(file, split.name, "inputs", split.trajectories, times_, data.forcing);
}

void SplitWriter::set_masked() {
  closure_.set_attribute(masked_attribute, std::string("where rows were missing"));
}

void SplitWriter::write_inputs(std::size_t index, const double* parameters, const double* forcing) {
  if (parameters_) parameters_->write({index, 0}, {1, p_}, parameters);
  if (forcing_) forcing_->write({index, 0, 0}, {1, times_, f_}, forcing);
}

void SplitWriter::write(std::size_t index, const double* resolved, const double* closure,
                        const double* closure_mean) {
  resolved_.write({index, 0, 0}, {1, times_, d_}, resolved);
  closure_.write({index, 0, 0}, {1, times_, c_}, closure);
  closure_mean_.write({index, 0, 0}, {1, times_ - 1, c_}, closure_mean);
}

}  // namespace mac
