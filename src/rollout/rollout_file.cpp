#include "rollout/rollout_file.hpp"

#include <algorithm>
#include <limits>
#include <mac/error.hpp>

#include "data/provenance.hpp"
#include "data/split_group.hpp"

namespace mac {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> labels_of(const DataSplit& split) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < split.trajectories(); ++i) labels.push_back(split.label(i));
  return labels;
}

h5::Dataset create_first_series(h5::File& file, const DataSplit& split, const System& system,
                                const std::vector<double>& time) {
  create_split_group(file, split.name(), labels_of(split), time, system.time_unit());
  return create_series(file, split.name(), "resolved", split.trajectories(), time.size(),
                       system.resolved_names());
}

}  // namespace

RolloutSplitWriter::RolloutSplitWriter(h5::File& file, const DataSplit& split, const System& system,
                                       const std::vector<double>& time, std::size_t first_in_data,
                                       std::optional<std::size_t> memory_size, bool time_steps)
    : times_(time.size()),
      first_in_data_(first_in_data),
      d_(system.resolved_size()),
      c_(system.closure_size()),
      memory_size_(memory_size),
      resolved_(create_first_series(file, split, system, time)),
      closure_(
          create_series(file, split.name(), "closure", split.trajectories(), times_, system.closure_names())),
      true_resolved_(create_series(file, split.name(), "true_resolved", split.trajectories(), times_,
                                   system.resolved_names())),
      true_closure_(create_series(file, split.name(), "true_closure", split.trajectories(), times_,
                                  system.closure_names())),
      blow_up_time_(
          file.create_dataset(fmt::format("/{}/blow_up_time", split.name()), {split.trajectories()})) {
  if (memory_size)
    memory_ =
        file.create_dataset(fmt::format("/{}/memory", split.name()), {split.trajectories(), *memory_size});
  if (time_steps)
    seconds_per_step_ = file.create_dataset(fmt::format("/{}/seconds_per_step", split.name()), {times_});
}

void RolloutSplitWriter::write(const DataSplit& split, std::size_t first, std::size_t count,
                               const GroupResult& result) {
  blow_up_time_.write({first}, {count}, result.blow_up_time.data());
  if (memory_ && *memory_size_ > 0) memory_->write({first, 0}, {count, *memory_size_}, result.memory.data());
  if (seconds_per_step_ && first == 0)
    seconds_per_step_->write({0}, {times_}, result.seconds_per_step.data());

  const std::size_t known =
      first_in_data_ < split.times() ? std::min(times_, split.times() - first_in_data_) : 0;
  std::vector<double> truth(times_ * std::max(d_, c_), nan);
  // One trajectory after the other, whatever the group: the order of writes decides where chunks lie.
  for (std::size_t i = first; i < first + count; ++i) {
    resolved_.write({i, 0, 0}, {1, times_, d_}, result.resolved.data() + (i - first) * times_ * d_);
    closure_.write({i, 0, 0}, {1, times_, c_}, result.closure.data() + (i - first) * times_ * c_);
    if (known > 0) split.read_resolved(i, first_in_data_, known, truth.data());
    std::fill(truth.begin() + static_cast<std::ptrdiff_t>(known * d_), truth.end(), nan);
    true_resolved_.write({i, 0, 0}, {1, times_, d_}, truth.data());
    if (known > 0) split.read_closure(i, first_in_data_, known, truth.data());
    std::fill(truth.begin() + static_cast<std::ptrdiff_t>(known * c_), truth.end(), nan);
    true_closure_.write({i, 0, 0}, {1, times_, c_}, truth.data());
  }
}

RolloutFile RolloutFile::open(const std::string& path) {
  const h5::File file = h5::File::open(path);
  Experiment experiment = read_provenance(file, "rollout");
  const HeldClosure held{hold_from(file.string_attribute("/", "hold")),
                         target_from(file.string_attribute("/", "target"))};
  RolloutFile rollout{path, file.string_attribute("/", "model"), held, std::move(experiment), {}};
  if (file.has_attribute("/", "precision"))
    rollout.precision = precision_from(file.string_attribute("/", "precision"));
  const System& system = *rollout.experiment.system;
  const std::size_t d = system.resolved_size(), c = system.closure_size();
  for (const SplitPlan& plan : rollout.experiment.data.splits) {
    if (!file.has("/" + plan.name)) continue;
    RolloutSplit split;
    split.name = plan.name;
    split.labels = file.read_text(fmt::format("/{}/labels", plan.name));
    split.time = file.dataset(fmt::format("/{}/time", plan.name)).read_all();
    const std::size_t n = split.labels.size(), times = split.time.size();
    if (n == 0) throw Error("{}: /{} holds no trajectory", path, plan.name);
    const auto read = [&](const char* name, const std::vector<std::size_t>& dims) {
      return open_series(file, plan.name, name, dims).read_all();
    };
    split.resolved = read("resolved", {n, times, d});
    split.true_resolved = read("true_resolved", {n, times, d});
    split.closure = read("closure", {n, times, c});
    split.true_closure = read("true_closure", {n, times, c});
    split.blow_up_time = read("blow_up_time", {n});
    if (file.has(fmt::format("/{}/memory", plan.name))) {
      const h5::Dataset memory = file.dataset(fmt::format("/{}/memory", plan.name));
      if (memory.dims().size() != 2 || memory.dims()[0] != n)
        throw Error("{}: /{}/memory has not one row a trajectory", path, plan.name);
      split.memory_size = memory.dims()[1];
      split.memory = memory.read_all();
    }
    if (file.has(fmt::format("/{}/seconds_per_step", plan.name)))
      split.seconds_per_step = read("seconds_per_step", {times});
    rollout.splits.push_back(std::move(split));
  }
  if (rollout.splits.empty()) throw Error("{}: holds no split", path);
  return rollout;
}

}  // namespace mac
