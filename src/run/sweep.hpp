// One study with several values of some settings: a run for each combination, a table and a figure of all.
#pragma once

#include <mac/run.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mac {

struct SweepAxis {
  std::string key;                  // "training.noise"
  std::vector<std::string> values;  // as TOML
};
/// "training.noise=0.01,0.03"; UsageError for anything else.
SweepAxis sweep_axis(const std::string& text);

struct SweepOptions {
  RunOptions run;
  std::size_t random = 0;  // so many combinations, drawn from all; 0: all
  std::uint64_t seed = 0;  // of the draw
  std::optional<std::size_t> point =
      std::nullopt;        // only this combination, and no table: a task of a job array
  bool only_data = false;  // only the data that the combinations share
};

/// One model of one combination.
struct SweepRow {
  std::vector<std::string> values;  // of the axes
  std::string model, split, interval;
  double error = 0;              // mean relative L2 over variables; NaN: every rollout blew up
  double validation = 0;         // the same on validation data, of the free rollouts' mean; NaN: not known
  std::optional<double> better;  // factor over no closure
  std::size_t warnings = 0;
};

struct SweepResult {
  std::vector<SweepRow> rows;
  std::optional<std::size_t> best = std::nullopt;  // row of the least validation error
  Table table;
  std::size_t done = 0, kept = 0;
  std::vector<std::string> failures = {};  // of runs that could not be finished: folder and sentence
};

/// Runs every combination in a folder of its own below `folder`, named by its values, as run_study does: what is there
/// and valid is kept, so that more values can be added later. Data that several combinations share are made once.
/// Writes sweep.csv, sweep.svg and sweep.html. A run that fails, a training that explodes, is left out of them and the
/// others go on; of several ranks it ends all. Ranks take a combination each when they are free, or, where there are
/// fewer combinations than ranks, do one after the other together.
SweepResult sweep(const Experiment& experiment, const std::vector<SweepAxis>& axes, const std::string& folder,
                  const SweepOptions& options);

/// How many combinations there are.
std::size_t sweep_points(const std::vector<SweepAxis>& axes, const SweepOptions& options);

/// A script for Slurm: `command` (the words of mac sweep ... with its arguments) for the data, for `points` tasks of a
/// job array, and for the table, each after the one before. Jobs without MPI.
std::string slurm_script(const std::vector<std::string>& command, std::size_t points);

}  // namespace mac
