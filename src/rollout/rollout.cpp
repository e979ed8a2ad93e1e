#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <mac/rollout.hpp>
#include <mac/step_stability.hpp>
#include <optional>

#include "data/growth_rate.hpp"
#include "data/provenance.hpp"
#include "data/relative_l2.hpp"
#include "io/hdf5_output.hpp"
#include "io/input_file.hpp"
#include "parallel/ranks_in_order.hpp"
#include "parallel/thread_count.hpp"
#include "rollout/lyapunov.hpp"
#include "rollout/rollout_file.hpp"
#include "rollout/running_group.hpp"

namespace mac {

namespace {

constexpr std::size_t group_size = 64;  // trajectories that advance together, at most
constexpr double most_steps = 1e9;      // as many as a split may have saved times
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

bool sound(const double* values, std::size_t count) {
  return std::all_of(values, values + count, [](double v) { return std::abs(v) < blow_up_bound; });
}

/// What one split's rollout covers, worked out before anything runs.
struct SplitTask {
  DataSplit split;
  std::size_t trajectories;               // the first so many of the split
  ReducedStep dt;                         // the closure step
  std::vector<double> time;               // of the rollout
  std::size_t first_in_data = 0;          // index of time[0] in the data
  std::size_t history = 0;                // the model is given the truth up to and including this index
  const RolloutSplit* earlier = nullptr;  // the rollout that this one continues
  std::size_t members = 1;                // runs from each state
  MemberPlan member = {};                 // what they have in common
};

/// The rollout of the paper's sec_framework: predict C_n from y_n, advance eq. (3), eq_rom2, by one step,
/// repeat.
GroupResult roll_group(ClosureGroup& group, const GroupTask& task, GroupStart start, Progress& progress) {
  const auto& [system, held, dt, time, first_in_data, history, continued, count, systems] = task;
  const std::size_t d = system.resolved_size(), c = system.closure_size(), times = time.size();
  GroupResult out{std::vector<double>(count * times * d, nan),
                  std::vector<double>(count * times * c, nan),
                  std::move(start.blow_up_time),
                  {},
                  std::vector<double>(times)};
  const std::vector<double> truth = std::move(start.truth);
  RunningGroup running(group, task, std::move(start));

  for (std::size_t n = 0; n < times; ++n) {
    const auto began = std::chrono::steady_clock::now();
    const std::size_t step = first_in_data + n;
    running.predict(step);
    for (std::size_t i = 0; i < count; ++i) {
      double *state = running.state(i), *now = running.closure_of(i);
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
    if (n + 1 < times) {
      running.advance(step);
      if (n + 1 <= history)  // still reading the true past
        for (std::size_t i = 0; i < count; ++i)
          std::copy_n(truth.data() + (i * (history + 1) + n + 1) * d, d, running.state(i));
    }
    out.seconds_per_step[n] = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    progress.advance(count);
    if (n % 64 == 0) throw_if_interrupted();
  }
  if (const auto size = group.memory_size()) {
    out.memory.resize(count * *size);
    group.save_memory(out.memory.data());
  }
  return out;
}

/// Of member m of each trajectory.
GroupStart start_group(const SplitTask& task, std::size_t first, std::size_t count, std::size_t m) {
  const DataSplit& split = task.split;
  const std::size_t d = split.resolved_size(), c = split.closure_size();
  GroupStart start;
  start.y.resize(count * d);
  start.blow_up_time.assign(count, nan);
  if (task.earlier == nullptr) {
    start.truth.resize(count * (task.history + 1) * d);
    for (std::size_t i = 0; i < count; ++i) {
      double* truth = start.truth.data() + i * (task.history + 1) * d;
      split.read_resolved(first + i, 0, task.history + 1, truth);
      std::copy_n(truth, d, start.y.data() + i * d);
    }
    return start;
  }
  const RolloutSplit& earlier = *task.earlier;
  const std::size_t times = earlier.time.size(), memory = *earlier.memory_size, members = task.members;
  const bool several = members > 1;
  // Rows of each of its trajectories (trajectory, member), `per` of them each.
  const auto rows = [&](const std::vector<double>& values, std::size_t width, std::size_t per,
                        std::size_t row) {
    std::vector<double> out;
    for (std::size_t i = first; i < first + count; ++i) {
      const auto at = values.begin() + static_cast<std::ptrdiff_t>(((i * members + m) * per + row) * width);
      out.insert(out.end(), at, at + static_cast<std::ptrdiff_t>(width));
    }
    return out;
  };
  const auto& closures = several ? earlier.members.closure : earlier.closure;
  start.y = rows(several ? earlier.members.resolved : earlier.resolved, d, times, times - 1);
  start.closure = rows(closures, c, times, times - 1);
  start.previous = rows(closures, c, times, times - 2);
  start.memory = rows(several ? earlier.members.memory : earlier.memory, memory, 1, 0);
  start.blow_up_time = rows(several ? earlier.members.blow_up_time : earlier.blow_up_time, 1, 1, 0);
  return start;
}

/// The same with what is given from outside at all times.
GroupStart start_whole_group(const SplitTask& task, std::size_t first, std::size_t count) {
  GroupStart start = start_group(task, first, count, 0);
  start.given_names = task.split.input_names();
  const std::size_t row = task.time.size() * start.given_names.size();
  start.given.resize(count * row);
  for (std::size_t i = 0; i < count && row > 0; ++i)
    task.split.read_inputs(first + i, task.first_in_data, task.time.size(), start.given.data() + i * row);
  return start;
}

/// The mean of the members' runs, lost where one of them is; `members` keeps each, (count, members, ...).
GroupResult mean_of(const std::vector<GroupResult>& runs, std::size_t count) {
  GroupResult mean = runs.front();
  const std::size_t members = runs.size();
  const double share = 1 / static_cast<double>(members);
  const auto average = [&](std::vector<double> GroupResult::*of) {
    std::vector<double>& values = mean.*of;
    for (std::size_t m = 1; m < members; ++m)
      for (std::size_t k = 0; k < values.size(); ++k) values[k] += (runs[m].*of)[k];
    for (double& value : values) value *= share;
  };
  average(&GroupResult::resolved);
  average(&GroupResult::closure);
  for (std::size_t i = 0; i < count; ++i)
    for (const GroupResult& run : runs)
      mean.blow_up_time[i] = std::fmin(mean.blow_up_time[i], run.blow_up_time[i]);
  mean.memory.clear();
  const auto gather = [&](std::vector<double> GroupResult::*of, std::vector<double>& to) {
    const std::size_t width = (runs.front().*of).size() / count;
    for (std::size_t i = 0; i < count; ++i)
      for (const GroupResult& run : runs) {
        const auto at = (run.*of).begin() + static_cast<std::ptrdiff_t>(i * width);
        to.insert(to.end(), at, at + static_cast<std::ptrdiff_t>(width));
      }
  };
  gather(&GroupResult::resolved, mean.members.resolved);
  gather(&GroupResult::closure, mean.members.closure);
  gather(&GroupResult::blow_up_time, mean.members.blow_up_time);
  gather(&GroupResult::memory, mean.members.memory);
  return mean;
}

/// take(first, count, result) gets every group, in order, on rank 0.
template <class Take>
void roll_split(const ClosureModel& model, const System& system, const SplitTask& task, int threads,
                Progress& progress, const Take& take) {
  const std::size_t n = task.trajectories;
  const std::vector<std::shared_ptr<const System>>& systems = task.split.systems();
  const auto at_once = model.rolls_at_once(task.time.size());
  if (at_once) threads = 1;
  // Small enough that every thread of every rank has work; a model's results must not depend on the grouping.
  const std::size_t workers = static_cast<std::size_t>(threads) * ranks().size(),
                    share = (n + workers - 1) / workers;
  const std::size_t size = std::clamp<std::size_t>(share, 1, at_once.value_or(group_size));
  const std::size_t groups = (n + size - 1) / size;
  const bool counts_all = ranks().size() > 1;  // steps of other ranks are counted when a group is done
  Progress unseen("", 1, true);
  ranks_in_order(
      groups, threads,
      [&](std::size_t, std::size_t g) {
        const std::size_t first = g * size, count = std::min(size, n - first);
        const GroupTask work{system,
                             model.held(),
                             task.dt,
                             task.time,
                             task.first_in_data,
                             task.history,
                             task.earlier != nullptr,
                             count,
                             systems.empty() ? std::span(systems) : std::span(systems).subspan(first, count)};
        if (at_once) {
          GroupResult result = model.roll(work, start_whole_group(task, first, count));
          if (!counts_all) progress.advance(count * task.time.size());
          return result;
        }
        std::vector<GroupResult> runs;
        for (std::size_t m = 0; m < task.members; ++m) {
          MemberPlan member = task.member;
          member.member = m;
          const auto group = model.start_member(task.split, first, count, member);
          runs.push_back(
              roll_group(*group, work, start_group(task, first, count, m), counts_all ? unseen : progress));
        }
        return task.members > 1 ? mean_of(runs, count) : std::move(runs.front());
      },
      [&](std::size_t g, const GroupResult& result) {
        const std::size_t first = g * size, count = std::min(size, n - first);
        take(first, count, result);
        if (counts_all) progress.advance(count * task.members * task.time.size());
      });
}

/// Of the first trajectories of a split; what travels from rank to rank.
struct Rates {
  std::vector<double> model, truth;
};
std::array<std::vector<double>*, 2> arrays(Rates& rates) { return {&rates.model, &rates.truth}; }

bool has_full_model(const System& system) { return system.is_known() && system.name() != "recorded"; }

/// From trajectory i of the split on.
double true_exponent(const DataPlan& data, const SplitPlan& split, const System& system, std::size_t i,
                     std::size_t steps) {
  const auto index = static_cast<std::uint32_t>(i);
  const auto initial = system.initial_condition(split.initial_table ? &*split.initial_table : nullptr);
  const auto solver = system.make_solver(data.dt);
  RandomStream random(data.seed, split.purpose, index);
  start_trajectory(system, *initial, i, random, *solver);
  return growth_rate(system, *solver, data.dt, steps, RandomStream(data.seed, Purpose::diagnosis, index));
}

/// Largest Lyapunov exponents of the coupled model and, where it can be run, of the full one: nothing of a model whose
/// memory cannot be taken up, or that runs on a device. take(i, rates) gets every trajectory, in order, on rank 0.
template <class Take>
void find_exponents(const ClosureModel& given, const Experiment& experiment, const SplitTask& task,
                    std::size_t runs, int threads, const Take& take) {
  const std::unique_ptr<ClosureModel> precise = given.in_float64();
  const ClosureModel& model = precise ? *precise : given;
  const auto& systems = task.split.systems();
  const auto plan = std::ranges::find(experiment.data.splits, task.split.name(), &SplitPlan::name);
  const std::size_t steps = (task.time.size() - 1) * experiment.data.stride;  // of the full model
  ranks_in_order(
      runs, threads,
      [&](std::size_t, std::size_t i) {
        const System& system = systems.empty() ? *experiment.system : *systems[i];
        const GroupTask work{*experiment.system,
                             model.held(),
                             task.dt,
                             task.time,
                             task.first_in_data,
                             0,
                             task.earlier != nullptr,
                             1,
                             systems.empty() ? std::span(systems) : std::span(systems).subspan(i, 1)};
        const auto one = model.start_member(task.split, i, 1, task.member),
                   other = model.start_member(task.split, i, 1, task.member);
        Rates rates{parting_rates(*one, *other, work, start_group(task, i, 1, 0), i), {}};
        if (has_full_model(system))
          rates.truth.push_back(true_exponent(experiment.data, *plan, system, i, steps));
        return rates;
      },
      [&](std::size_t i, const Rates& rates) { take(i, rates); });
}

/// Of the noise that a rollout is made with: none of a deterministic model, or without noise.
std::optional<std::uint64_t> noise_seed(const ClosureModel& model, const RolloutOptions& options) {
  if (model.most_members() < most_stochastic_members || !options.noise) return std::nullopt;
  return options.seed;
}

/// The rollout that is continued, without its truth. It must be of the same model, coupling, noise and data.
RolloutFile open_earlier(const std::string& path, const ClosureModel& model, const DataFile& data,
                         const RolloutOptions& options) {
  const RolloutReader reader(path);
  RolloutFile earlier = reader.header();
  if (earlier.noise_seed && earlier.noise_seed != noise_seed(model, options))
    throw UsageError("{}: was rolled out with the noise of seed {}: say --seed {}", path, *earlier.noise_seed,
                     *earlier.noise_seed);
  if (earlier.model != model.name())
    throw UsageError("{}: is a rollout of {}, which {} cannot continue", path, earlier.model, model.name());
  if (earlier.held != model.held()) throw UsageError("{}: was rolled out with another hold or target", path);
  if (earlier.precision && earlier.precision != model.precision())
    throw UsageError("{}: was rolled out in {}, which another precision cannot continue", path,
                     to_string(*earlier.precision));
  if (earlier.experiment.config.text() != data.experiment().config.text())
    throw UsageError("{}: was rolled out on another data set than {}", path, data.path());
  for (const std::string& split : reader.splits()) earlier.splits.push_back(reader.read(split));
  return earlier;
}

SplitTask plan_split(DataSplit split, ReducedStep step, const RolloutOptions& options,
                     const RolloutFile* earlier) {
  const std::size_t trajectories = std::min(split.trajectories(), options.most);
  SplitTask task{std::move(split), trajectories, step, {}, 0, 0, nullptr};
  task.members = task.split.name() == "statistics" ? 1 : options.members;
  task.member = {options.seed, 0, task.members > 1, options.noise};
  const std::vector<double>& time = task.split.time();
  if (earlier) {
    for (const RolloutSplit& candidate : earlier->splits)
      if (candidate.name == task.split.name()) task.earlier = &candidate;
    if (!task.earlier) throw UsageError("{}: has no split {} to continue", earlier->path, task.split.name());
    if (!task.earlier->memory_size) throw UsageError("{}: this model cannot be continued", earlier->path);
    if (task.earlier->members.count != task.members)
      throw UsageError("{}: has {} member(s) of split {}, which {} cannot continue: say --members {}",
                       earlier->path, task.earlier->members.count, task.split.name(), task.members,
                       task.earlier->members.count);
    if (task.earlier->time.size() < 2) throw UsageError("{}: is too short to continue", earlier->path);
    task.first_in_data =
        static_cast<std::size_t>(std::lround((task.earlier->time.back() - time.front()) / step));
  }
  const double end = options.to ? time.front() + *options.to : time.back();
  const double last = std::round((end - time.front()) / step);
  if (last > most_steps) throw UsageError("a rollout to t = {:g} has more than a billion steps", end);
  if (last <= static_cast<double>(task.first_in_data))
    throw UsageError("the rollout of split {} would end at t = {:g}, not after its start at {:g}",
                     task.split.name(), end, time.front() + static_cast<double>(task.first_in_data) * step);
  for (std::size_t n = task.first_in_data; n <= static_cast<std::size_t>(last); ++n)
    task.time.push_back(n < time.size() ? time[n] : time.front() + static_cast<double>(n) * step);

  if (options.history > 0) {
    if (earlier)
      throw UsageError(
          "a continued rollout has its history already: --from and a history exclude each other");
    task.history = static_cast<std::size_t>(std::lround(options.history / step));
    if (task.history >= time.size())
      throw UsageError("the history of {:g} is longer than split {}", options.history, task.split.name());
  }
  return task;
}

/// Throws UsageError unless the earlier rollout has what this one begins with. A model may have its name and be another.
void check_continued(const ClosureModel& model, const SplitTask& task, const std::string& path) {
  const RolloutSplit& earlier = *task.earlier;
  const auto memory = model.start_member(task.split, 0, 1, task.member)->memory_size();
  if (memory != earlier.memory_size)
    throw UsageError(
        "{}: has {} numbers of memory of a trajectory, {} needs {}: it is a rollout of another model", path,
        *earlier.memory_size, model.name(), memory.value_or(0));
  if (earlier.trajectories() < task.trajectories)
    throw UsageError("{}: has {} of the {} trajectories of split {}", path, earlier.trajectories(),
                     task.trajectories, earlier.name);
}

std::vector<SplitTask> plan_splits(const ClosureModel& model, const DataFile& data,
                                   const RolloutOptions& options, const RolloutFile* earlier) {
  if (const std::size_t most = model.most_members(); options.members > most)
    throw UsageError("{}: {}, not {}", model.name(),
                     most == 1 ? "is deterministic, all its runs are the same: expected 1 member"
                               : fmt::format("has at most {} members", most),
                     options.members);
  if (options.members > 1 && model.rolls_at_once(1))
    throw UsageError(
        "{}: a CUDA device runs the members of an ensemble as the one model that they are: leave out "
        "--members, or use --device cpu",
        model.name());
  std::vector<std::string> names = options.splits;
  if (names.empty() && earlier)
    for (const RolloutSplit& split : earlier->splits) names.push_back(split.name);
  else if (names.empty())
    for (const char* name : {"test", "ood", "statistics"})
      if (data.has(name)) names.push_back(name);
  if (names.empty()) throw UsageError("{}: has neither a test nor an ood split to roll out", data.path());
  const ReducedStep step = choose_step(*data.experiment().system, data.experiment().rollout, data);
  std::vector<SplitTask> tasks;
  for (const std::string& name : names) {
    tasks.push_back(plan_split(data.split(name), step, options, earlier));
    if (earlier) check_continued(model, tasks.back(), earlier->path);
  }
  return tasks;
}

std::size_t steps_of(const std::vector<SplitTask>& tasks) {
  std::size_t steps = 0;
  for (const SplitTask& task : tasks) steps += task.trajectories * task.members * task.time.size();
  return steps;
}

/// Mean over trajectories and resolved variables of the relative L2 error; infinite after a blow-up.
double mean_relative_error(const RolloutSplit& split) {
  const std::size_t n = split.trajectories(), size = split.resolved.size() / n, d = size / split.time.size();
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::isnan(split.blow_up_time[i])) return std::numeric_limits<double>::infinity();
    for (const double error : relative_l2(std::span(split.resolved).subspan(i * size, size),
                                          std::span(split.true_resolved).subspan(i * size, size), d))
      if (!std::isnan(error)) sum += error, ++count;
  }
  return sum / static_cast<double>(count);
}

/// Over the horizon that the split validation has in common with those that are rolled out.
ValidationError validation_error(const ClosureModel& model, const DataFile& data,
                                 const std::vector<SplitTask>& tasks, const RolloutOptions& options) {
  const std::vector<double> known = data.split("validation").time();
  double horizon = known.back() - known.front();
  for (const SplitTask& task : tasks)
    horizon = std::min(horizon, task.split.time().back() - task.split.time().front());
  RolloutOptions some;
  some.splits = {"validation"};
  some.threads = options.threads;
  some.quiet = true;
  some.to = horizon;
  some.history = std::min(options.history, horizon);
  some.most = options.validation;
  some.members = options.members;
  some.seed = options.seed;
  some.noise = options.noise;
  const RolloutSplit split = rollout_in_memory(model, data, some).splits.front();
  return {horizon, mean_relative_error(split)};
}

}  // namespace

GroupResult ClosureModel::roll(const GroupTask&, GroupStart) const {
  throw Error("{}: advances step by step", name());
}

void ClosureGroup::advance(std::size_t, const GroupStep& step, double* y) {
  const std::size_t d = step.system.resolved_size(), c = step.system.closure_size();
  for (std::size_t i = 0; i < step.count; ++i)
    coupled_step(step.system_of(i), step.dt, step.held, step.closure + i * c,
                 step.previous ? step.previous + i * c : nullptr, y + i * d);
}

RolloutFile rollout_in_memory(const ClosureModel& model, const DataFile& data,
                              const RolloutOptions& options) {
  const std::vector<SplitTask> tasks = plan_splits(model, data, options, nullptr);
  const System& system = *data.experiment().system;
  const std::size_t d = system.resolved_size(), c = system.closure_size();
  RolloutFile file{model.name(), model.name(), model.held(), data.experiment(), {}};
  Progress progress(fmt::format("rolling out {}", model.name()), steps_of(tasks), options.quiet);
  for (const SplitTask& task : tasks) {
    const std::size_t n = task.trajectories, times = task.time.size();
    RolloutSplit split;
    split.name = task.split.name();
    split.time = task.time;
    for (std::size_t i = 0; i < n; ++i) {
      split.labels.push_back(task.split.label(i));
      const Truth truth = read_truth(task.split, i, task.first_in_data, times);
      split.true_resolved.insert(split.true_resolved.end(), truth.resolved.begin(), truth.resolved.end());
      split.true_closure.insert(split.true_closure.end(), truth.closure.begin(), truth.closure.end());
    }
    split.resolved.resize(n * times * d), split.closure.resize(n * times * c), split.blow_up_time.resize(n);
    split.members.count = task.members;
    roll_split(model, system, task, thread_count(options.threads), progress,
               [&](std::size_t first, std::size_t, const GroupResult& result) {
                 std::ranges::copy(result.resolved, split.resolved.data() + first * times * d);
                 std::ranges::copy(result.closure, split.closure.data() + first * times * c);
                 std::ranges::copy(result.blow_up_time, split.blow_up_time.data() + first);
                 const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
                   to.insert(to.end(), from.begin(), from.end());
                 };
                 append(split.members.resolved, result.members.resolved);
                 append(split.members.closure, result.members.closure);
                 append(split.members.blow_up_time, result.members.blow_up_time);
               });
    for (std::size_t i = 0; i < n; ++i)
      split.parameters.insert(split.parameters.end(), task.split.parameters(i).begin(),
                              task.split.parameters(i).end());
    file.splits.push_back(std::move(split));
  }
  if (const ResolvedRange* range = data.training_range()) file.training_range = *range;
  file.parameter_range = options.parameter_range ? options.parameter_range : data.parameter_range();
  return file;
}

void rollout(const ClosureModel& model, const DataFile& data, const std::string& path,
             const RolloutOptions& options) {
  check_output(path, {data.path(), options.from});
  std::optional<RolloutFile> earlier;
  if (!options.from.empty()) earlier = open_earlier(options.from, model, data, options);
  const std::vector<SplitTask> tasks = plan_splits(model, data, options, earlier ? &*earlier : nullptr);
  const System& system = *data.experiment().system;

  std::optional<Hdf5Output> output;  // on rank 0
  on_root([&] {
    h5::File& file = output.emplace(path).file;
    write_provenance(file, "rollout", data.experiment());
    file.set_attribute("/", "model", model.name());
    file.set_attribute("/", "hold", std::string(to_string(model.held().hold)));
    file.set_attribute("/", "target", std::string(to_string(model.held().target)));
    if (const auto seed = noise_seed(model, options)) file.set_attribute("/", "noise_seed", *seed);
    if (model.precision()) file.set_attribute("/", "precision", std::string(to_string(*model.precision())));
    if (!options.self_contained) write_data_reference(file, path, data);
    if (const ResolvedRange* range = data.training_range()) write_training_range(file, *range);
    if (const auto range = options.parameter_range ? options.parameter_range : data.parameter_range())
      write_parameter_range(file, *range);
  });
  SecondsPerStep times;
  {
    Progress progress(fmt::format("rolling out {}", model.name()), steps_of(tasks), options.quiet);
    for (const SplitTask& task : tasks) {
      std::optional<RolloutSplitWriter> writer;
      on_root([&] {
        const auto memory_size = model.start_member(task.split, 0, 1, task.member)->memory_size();
        writer.emplace(output->file, task.split, system, task.trajectories, task.members, task.time,
                       task.first_in_data, memory_size, options);
      });
      roll_split(model, system, task, thread_count(options.threads), progress,
                 [&](std::size_t first, std::size_t count, const GroupResult& result) {
                   writer->write(task.split, first, count, result);
                 });
      if (writer) times[task.split.name()] = writer->seconds_per_step();
      const std::size_t runs =
          task.split.name() == "statistics" ? std::min(options.lyapunov, task.trajectories) : 0;
      if (runs == 0 || model.rolls_at_once(task.time.size()) ||
          !model.start_member(task.split, 0, 1, task.member)->memory_size())
        continue;
      Rates exponents;
      find_exponents(model, data.experiment(), task, runs, thread_count(options.threads),
                     [&](std::size_t, const Rates& rates) {
                       exponents.model.push_back(rates.model.front());
                       exponents.truth.insert(exponents.truth.end(), rates.truth.begin(), rates.truth.end());
                     });
      if (writer) writer->write_exponents(exponents.model, exponents.truth);
    }
  }
  std::optional<ValidationError> validation;
  if (options.validation > 0 && data.has("validation"))
    validation = validation_error(model, data, tasks, options);
  on_root([&] {
    if (validation) write_validation(output->file, *validation);
    output->commit();
    if (options.time_steps) write_step_times(path, times);
  });
}

}  // namespace mac
