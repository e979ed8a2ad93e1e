#include <omp.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <mac/rollout.hpp>
#include <optional>

#include "data/provenance.hpp"
#include "io/atomic_file.hpp"
#include "io/hdf5.hpp"

namespace mac {

namespace {

constexpr std::size_t group_size = 64;  // trajectories that advance together, at most
constexpr std::size_t times_per_chunk = 4096;
constexpr double blow_up_bound = 1e12;  // far beyond any resolved variable, far below overflow
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// A group of trajectories, (count, n_time, ...).
struct GroupResult {
  std::vector<double> resolved, closure, blow_up_time;
};

bool sound(const double* values, std::size_t count) {
  return std::all_of(values, values + count, [](double v) { return std::abs(v) < blow_up_bound; });
}

/// Rolls `count` trajectories out from their initial states y (count, d).
GroupResult roll_group(const System& system, ClosureGroup& group, HeldClosure held,
                       const std::vector<double>& time, std::size_t count, std::vector<double> y,
                       Progress& progress) {
  const std::size_t d = system.resolved_size(), c = system.closure_size(), times = time.size();
  const double dt = (time.back() - time.front()) / static_cast<double>(times - 1);
  GroupResult out{std::vector<double>(count * times * d, nan), std::vector<double>(count * times * c, nan),
                  std::vector<double>(count, nan)};
  std::vector<double> closure(count * c), previous(count * c);
  for (std::size_t n = 0; n < times; ++n) {
    group.predict(n, y.data(), closure.data());
    for (std::size_t i = 0; i < count; ++i) {
      double* state = y.data() + i * d;
      double* now = closure.data() + i * c;
      if (std::isnan(out.blow_up_time[i]) && (!sound(state, d) || !sound(now, c)))
        out.blow_up_time[i] = time[n];
      if (!std::isnan(out.blow_up_time[i])) {  // the results stay NaN, the group's arithmetic finite
        std::fill_n(state, d, 0.0);
        std::fill_n(now, c, 0.0);
        continue;
      }
      std::copy_n(state, d, out.resolved.data() + (i * times + n) * d);
      std::copy_n(now, c, out.closure.data() + (i * times + n) * c);
    }
    if (n + 1 < times)
      group.advance(n, {system, dt, held, count, closure.data(), n > 0 ? previous.data() : nullptr},
                    y.data());
    std::swap(closure, previous);
    progress.advance(count);
    if (n % 64 == 0) throw_if_interrupted();
  }
  return out;
}

struct SplitWriter {
  h5::Dataset resolved, closure, true_resolved, true_closure, blow_up_time;
};

SplitWriter create_split(h5::File& file, const DataSplit& split, const System& system) {
  const std::string group = "/" + split.name();
  const std::size_t n = split.trajectories(), times = split.times();
  file.create_group(group);
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < n; ++i) labels.push_back(split.label(i));
  file.set_attribute(group, "labels", labels);
  h5::Dataset time = file.create_dataset(group + "/time", {times});
  time.write({0}, {times}, split.time().data());
  const auto create = [&](const char* name, const std::vector<std::string>& variables) {
    const std::size_t width = variables.size();
    h5::Dataset set = file.create_dataset(group + "/" + name, {n, times, width},
                                          {1, std::min(times, times_per_chunk), width});
    set.set_attribute("variables", variables);
    return set;
  };
  return {create("resolved", system.resolved_names()), create("closure", system.closure_names()),
          create("true_resolved", system.resolved_names()), create("true_closure", system.closure_names()),
          file.create_dataset(group + "/blow_up_time", {n})};
}

void write_group(SplitWriter& writer, const DataSplit& split, std::size_t first, std::size_t count,
                 const GroupResult& result) {
  const std::size_t times = split.times(), d = split.resolved_size(), c = split.closure_size();
  writer.resolved.write({first, 0, 0}, {count, times, d}, result.resolved.data());
  writer.closure.write({first, 0, 0}, {count, times, c}, result.closure.data());
  writer.blow_up_time.write({first}, {count}, result.blow_up_time.data());
  std::vector<double> truth(times * std::max(d, c));
  for (std::size_t i = first; i < first + count; ++i) {
    split.read_resolved(i, 0, times, truth.data());
    writer.true_resolved.write({i, 0, 0}, {1, times, d}, truth.data());
    split.read_closure(i, 0, times, truth.data());
    writer.true_closure.write({i, 0, 0}, {1, times, c}, truth.data());
  }
}

void roll_split(const ClosureModel& model, const System& system, const DataSplit& split, SplitWriter writer,
                int threads, Progress& progress) {
  const std::size_t n = split.trajectories(), d = split.resolved_size();
  // Small enough that every thread has work; a model's results must not depend on the grouping.
  const auto share = (n + static_cast<std::size_t>(threads) - 1) / static_cast<std::size_t>(threads);
  const std::size_t size = std::clamp<std::size_t>(share, 1, group_size);
  const auto groups = static_cast<std::int64_t>((n + size - 1) / size);
  std::exception_ptr failure;

#pragma omp parallel for ordered schedule(dynamic, 1) num_threads(threads)
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::size_t first = static_cast<std::size_t>(g) * size, count = std::min(size, n - first);
    std::optional<GroupResult> result;
    std::unique_ptr<ClosureGroup> group;
    std::vector<double> initial(count * d);
    const auto attempt = [&](auto&& work) {
      try {
        work();
      } catch (...) {
#pragma omp critical(rollout_failure)
        if (!failure) failure = std::current_exception();
      }
    };
#pragma omp critical(rollout_hdf5)
    attempt([&] {
      for (std::size_t i = 0; i < count; ++i) split.read_resolved(first + i, 0, 1, initial.data() + i * d);
      group = model.start(split, first, count);
    });
    if (group)
      attempt([&] {
        result = roll_group(system, *group, model.held(), split.time(), count, std::move(initial), progress);
      });
#pragma omp ordered
    {
#pragma omp critical(rollout_hdf5)
      if (result) attempt([&] { write_group(writer, split, first, count, *result); });
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

void ClosureGroup::advance(std::size_t /*n*/, const GroupStep& step, double* y) {
  const std::size_t d = step.system.resolved_size(), c = step.system.closure_size();
  for (std::size_t i = 0; i < step.count; ++i)
    coupled_step(step.system, step.dt, step.held, step.closure + i * c,
                 step.previous ? step.previous + i * c : nullptr, y + i * d);
}

void rollout(const ClosureModel& model, const DataFile& data, const std::string& path,
             const RolloutOptions& options) {
  std::vector<std::string> names = options.splits;
  if (names.empty())
    for (const char* name : {"test", "ood"})
      if (data.has(name)) names.push_back(name);
  if (names.empty()) throw UsageError("{}: has neither a test nor an ood split to roll out", data.path());
  const int threads = options.threads > 0 ? options.threads : omp_get_num_procs();

  std::vector<DataSplit> splits;
  std::size_t total = 0;
  for (const std::string& name : names) {
    splits.push_back(data.split(name));
    total += splits.back().trajectories() * splits.back().times();
  }

  AtomicFile target(path);
  h5::File file = h5::File::create(target.temporary_path());
  write_provenance(file, "rollout", data.experiment());
  file.set_attribute("/", "model", model.name());
  file.set_attribute("/", "hold", std::string(to_string(model.held().hold)));
  file.set_attribute("/", "target", std::string(to_string(model.held().target)));
  {
    Progress progress(fmt::format("rolling out {}", model.name()), total, options.quiet);
    for (const DataSplit& split : splits)
      roll_split(model, *data.experiment().system, split,
                 create_split(file, split, *data.experiment().system), threads, progress);
  }
  file.close();
  target.commit();
}

RolloutFile RolloutFile::open(const std::string& path) {
  const h5::File file = h5::File::open(path);
  Experiment experiment = read_provenance(file, "rollout");
  const HeldClosure held{hold_from(file.string_attribute("/", "hold")),
                         target_from(file.string_attribute("/", "target"))};
  RolloutFile rollout{path, file.string_attribute("/", "model"), held, std::move(experiment), {}};
  const std::size_t d = rollout.experiment.system->resolved_size(),
                    c = rollout.experiment.system->closure_size();
  for (const SplitPlan& plan : rollout.experiment.data.splits) {
    const std::string group = "/" + plan.name;
    if (!file.has(group)) continue;
    RolloutSplit split;
    split.name = plan.name;
    split.labels = file.strings_attribute(group, "labels");
    split.time = file.dataset(group + "/time").read_all();
    const auto read = [&](const char* name, std::vector<std::size_t> dims) {
      const h5::Dataset dataset = file.dataset(group + "/" + name);
      if (dataset.dims() != dims)
        throw Error("{}: {}/{} has shape ({}), expected ({})", path, group, name,
                    fmt::join(dataset.dims(), ", "), fmt::join(dims, ", "));
      return dataset.read_all();
    };
    const std::size_t n = split.labels.size(), times = split.time.size();
    split.resolved = read("resolved", {n, times, d});
    split.true_resolved = read("true_resolved", {n, times, d});
    split.closure = read("closure", {n, times, c});
    split.true_closure = read("true_closure", {n, times, c});
    split.blow_up_time = read("blow_up_time", {n});
    rollout.splits.push_back(std::move(split));
  }
  if (rollout.splits.empty()) throw Error("{}: holds no split", path);
  return rollout;
}

}  // namespace mac
