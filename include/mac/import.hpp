// Trajectories that other programs wrote, as a data file: mac import and mac.read.
//
// A file's arrays are given the meaning of variables, times and trajectories; what is wrong with them is said in
// sentences; the closure is computed where it is not among them; splits are made. All by blocks: memory does not
// grow with the files.
#pragma once

#include <cstdint>
#include <mac/config.hpp>
#include <mac/experiment.hpp>
#include <string>
#include <vector>

namespace mac {

/// What becomes of missing rows: the import is refused; the trajectory is cut there, and memory starts anew; they
/// are interpolated; or interpolated for the memory's sake only, with a closure that counts in no loss.
enum class Gaps { refuse, split, fill, mask };
enum class Outliers { warn, drop, refuse };
enum class SplitBy { trajectory, time };

struct ImportPlan {
  std::vector<std::string> variables;   // arrays or columns of the resolved variables; empty: all that can be
  std::vector<std::string> closure;     // of the closure; empty: computed
  std::vector<std::string> forcing;     // series that drive the system, no unknowns
  std::vector<std::string> parameters;  // numbers that are constant in a trajectory
  std::string given;                    // "wind = sin(t); tide = cos(t/12)": expressions of the time
  std::vector<std::string> names;       // new names of the resolved variables
  std::vector<std::string> units;
  std::vector<std::string> targets;  // variables whose equations have a closure; empty: all
  std::vector<std::string> axes;     // "trajectory", "time", "variable", or "dimension=role"
  std::string time, trajectory;      // arrays of the times and of the trajectories' numbers
  std::string time_unit;
  std::string group;            // HDF5: each group that matches is a trajectory file of its own
  std::string system;           // experiment file with the reduced equations in its [system]; empty: none
  std::size_t order = 4;        // of the differences by which the closure is computed: 2 or 4
  double dt = 0;                // between two rows; 0: from the times
  std::vector<double> missing;  // numbers that mark missing values

  double resample = 0;  // new step, by cubic interpolation; 0: rows as they are
  Gaps gaps = Gaps::refuse;
  double longest_gap = 0;  // that is filled; 0: any
  Outliers outliers = Outliers::warn;

  SplitBy split = SplitBy::trajectory;
  double validation = 0.1, test = 0.1;  // shares
  std::vector<std::string> validation_files, test_files;
  std::uint64_t seed = 0;
  double length = 0;  // of the trajectories, in time; 0: as keeps most rows
  bool allow_leakage = false;
};

/// Reads the plan's keys from a table; they are named as the options of mac import.
void read_import_plan(const ConfigTable& table, ImportPlan& plan);
std::vector<std::string> import_axis_roles();

struct ImportReport {
  struct Split {
    std::string name;
    std::size_t trajectories = 0, times = 0;
  };
  std::vector<std::string> notes;     // what was done
  std::vector<std::string> warnings;  // what looks wrong
  Experiment experiment;              // what the data file says it is
  std::vector<Split> splits;
};

/// Writes the data file. Throws UsageError or Error, naming file, array and row, for what cannot be imported.
ImportReport import_data(const std::vector<std::string>& files, const ImportPlan& plan,
                         const std::string& output, bool quiet);

}  // namespace mac
