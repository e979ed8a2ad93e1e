#include <algorithm>
#include <cmath>
#include <mac/data.hpp>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <map>
#include <optional>

#include "data/provenance.hpp"
#include "data/split_writer.hpp"
#include "io/hdf5_output.hpp"
#include "io/input_file.hpp"
#include "parallel/ranks_in_order.hpp"
#include "parallel/thread_count.hpp"

namespace mac {

namespace {

struct Trajectory {
  std::vector<double> resolved, closure, closure_mean;
  std::vector<double> final_state;  // the full one, where another split continues this
};

std::array<std::vector<double>*, 4> arrays(Trajectory& t) {
  return {&t.resolved, &t.closure, &t.closure_mean, &t.final_state};
}

/// Full states at the end of a split's trajectories, for the split that continues it.
using FinalStates = std::vector<std::vector<double>>;

bool all_finite(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

/// What each trajectory of a split is about, where parameters vary.
struct Varied {
  std::vector<std::vector<double>> parameters;
  std::vector<std::shared_ptr<const System>> systems;
  std::vector<std::shared_ptr<const InitialCondition>> initial;  // a system's own: it may depend on them
};

/// Worked out before threads share the work: reading the experiment is not for several at once.
Varied vary(const Experiment& experiment, const SplitPlan& split) {
  Varied varied;
  if (!experiment.family) return varied;
  const SplitPlan* drawn = &split;
  while (drawn->continues)
    drawn = &*std::ranges::find(experiment.data.splits, *drawn->continues, &SplitPlan::name);
  std::map<const System*, std::shared_ptr<const InitialCondition>> initial;
  for (std::size_t i = 0; i < split.trajectories; ++i) {
    varied.parameters.push_back(draw_parameters(drawn->laws, experiment.data.seed, drawn->purpose, i));
    varied.systems.push_back(experiment.family->at(varied.parameters.back()));
    if (split.continues) continue;
    auto& own = initial[varied.systems.back().get()];
    if (!own)
      own = varied.systems.back()->initial_condition(split.initial_table ? &*split.initial_table : nullptr);
    varied.initial.push_back(own);
  }
  return varied;
}

/// Puts the solver at the first saved time of trajectory `index`.
void start(FullSolver& solver, const System& system, const SplitPlan& split, const InitialCondition* initial,
           std::uint64_t seed, std::size_t index, const FinalStates* parent) {
  if (split.continues) {
    solver.start(parent->at(index));
    return;
  }
  RandomStream random(seed, split.purpose, static_cast<std::uint32_t>(index));
  start_trajectory(system, *initial, index, random, solver);
}

Trajectory simulate(FullSolver& solver, const SplitPlan& split, const DataPlan& data, const System& system,
                    std::size_t index) {
  const std::size_t d = system.resolved_size(), c = system.closure_size(), times = split.intervals + 1;
  Trajectory out{std::vector<double>(times * d),
                 std::vector<double>(times * c),
                 std::vector<double>(split.intervals * c),
                 {}};
  for (std::size_t t = 0; t <= split.intervals; ++t) {
    const auto resolved = std::span(out.resolved).subspan(t * d, d);
    solver.resolved(resolved);
    const auto closure = std::span(out.closure).subspan(t * c, c);
    solver.closure(closure);
    if (!all_finite(resolved) || !all_finite(closure))
      throw Error("the {} solver blew up in trajectory {} of split {} before t = {:g}; try a smaller dt",
                  system.name(), index, split.name, static_cast<double>(t) * data.closure_step());
    if (t == split.intervals) break;
    for (std::size_t s = 0; s < data.stride; ++s) solver.step();
    const auto mean = std::span(out.closure_mean).subspan(t * c, c);
    solver.take_closure_integral(mean);
    for (double& value : mean) value /= data.closure_step();
    if (t % 64 == 0) throw_if_interrupted();
  }
  return out;
}

/// Rank 0's states on all ranks: who simulates what is not known before.
void share(FinalStates& states) {
  std::vector<std::vector<double>*> all;
  for (std::vector<double>& state : states) all.push_back(&state);
  Bytes bytes = packed(all);
  ranks().broadcast(bytes);
  unpack(bytes, all);
}

/// Simulates a split and writes it on rank 0, the only one with a writer; returns the final full states if another
/// split continues it.
FinalStates generate_split(const Experiment& experiment, const SplitPlan& split,
                           std::optional<SplitWriter> writer, const FinalStates* parent,
                           bool keep_final_states, int threads, Progress& progress) {
  const Varied varied = vary(experiment, split);
  FinalStates final_states(keep_final_states ? split.trajectories : 0);
  std::vector<std::unique_ptr<FullSolver>> solvers(static_cast<std::size_t>(threads));
  // Written in order: the file's bytes don't depend on which thread finishes first.
  ranks_in_order(
      split.trajectories, threads,
      [&](std::size_t worker, std::size_t index) {
        std::unique_ptr<FullSolver>& solver = solvers[worker];
        const System& system = varied.systems.empty() ? *experiment.system : *varied.systems[index];
        if (!solver || !varied.systems.empty()) solver = system.make_solver(experiment.data.dt);
        start(*solver, system, split,
              varied.initial.empty() ? split.initial.get() : varied.initial[index].get(),
              experiment.data.seed, index, parent);
        Trajectory trajectory = simulate(*solver, split, experiment.data, system, index);
        if (keep_final_states) trajectory.final_state.assign(solver->state().begin(), solver->state().end());
        return trajectory;
      },
      [&](std::size_t index, Trajectory trajectory) {
        writer->write(index, trajectory.resolved.data(), trajectory.closure.data(),
                      trajectory.closure_mean.data());
        if (!varied.parameters.empty()) writer->write_inputs(index, varied.parameters[index].data(), nullptr);
        if (keep_final_states) final_states[index] = std::move(trajectory.final_state);
        progress.advance();
      });
  if (keep_final_states && ranks().size() > 1) share(final_states);
  return final_states;
}

void refuse_recorded_inputs(const Experiment& experiment) {
  const DataPlan& data = experiment.data;
  const std::size_t of_system = experiment.family ? experiment.family->names().size() : 0;
  if (data.parameters.size() == of_system && data.forcing.empty()) return;
  const bool parameters = data.parameters.size() > of_system;
  experiment.config.table("data").fail(
      parameters ? "parameters" : "forcing",
      "names what comes with recorded data (mac import, mac.write_data): mac generate cannot make it; a "
      "parameter of the system varies by { uniform = [low, high] } in [system], and an expression of the "
      "time stands in "
      "[data.given]");
}

}  // namespace

void generate(const Experiment& experiment, const std::string& path, const GenerateOptions& options) {
  const DataPlan& data = experiment.data;
  const int threads = thread_count(options.threads);
  std::size_t total = 0;
  for (const SplitPlan& split : data.splits) total += split.trajectories;

  refuse_recorded_inputs(experiment);
  std::optional<Hdf5Output> output;  // on rank 0
  on_root([&] {
    check_output(path, {experiment.config.source()});
    output.emplace(path);
    write_provenance(output->file, "data", experiment);
  });
  {
    Progress progress(fmt::format("generating {} trajectories", experiment.system->name()), total,
                      options.quiet);
    std::map<std::string, FinalStates> final_states;
    for (const SplitPlan& split : data.splits) {
      const bool is_continued =
          std::any_of(data.splits.begin(), data.splits.end(),
                      [&](const SplitPlan& other) { return other.continues == split.name; });
      const FinalStates* parent = split.continues ? &final_states.at(*split.continues) : nullptr;
      std::optional<SplitWriter> writer;
      on_root([&] { writer.emplace(output->file, split, data, *experiment.system); });
      final_states[split.name] =
          generate_split(experiment, split, std::move(writer), parent, is_continued, threads, progress);
    }
  }
  on_root([&] { output->commit(); });
}

}  // namespace mac
