// An experiment: one TOML file that describes a study from the system to the tables.
#pragma once

#include <cstdint>
#include <mac/config.hpp>
#include <mac/random.hpp>
#include <mac/reduced_step.hpp>
#include <mac/system.hpp>
#include <mac/system_family.hpp>
#include <mac/training_plan.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mac {

class Formulas;  // expressions of the time, see systems/equations/formulas.hpp

/// One part of a data set.
struct SplitPlan {
  std::string name;  // train, validation, test, ood
  Purpose purpose = Purpose::train_data;
  std::size_t trajectories = 0;
  double horizon = 0;         // length in time
  std::size_t intervals = 0;  // saved intervals: horizon / (dt stride)
  /// Trajectory i goes on where trajectory i of this split ended, instead of starting anew.
  std::optional<std::string> continues;
  std::shared_ptr<const InitialCondition> initial;
  std::optional<ConfigTable> initial_table = std::nullopt;  // what `initial` was read from
  std::vector<ParameterLaw> laws = {};  // of the system's parameters that vary, in the family's order
};

struct DataPlan {
  double dt = 0;           // of the full model's solver
  std::size_t stride = 1;  // solver steps between saved times
  std::uint64_t seed = 0;
  std::vector<SplitPlan> splits;  // in the order train, validation, test, ood

  // Numbers that are no unknowns. Parameters are one a trajectory: those of the system that vary, then what
  // [data] parameters names. Forcing is one a saved time, as [data] forcing names it. Formulas, [data.given], are
  // known at any time; null: there are none.
  std::vector<std::string> parameters, forcing;
  std::shared_ptr<const Formulas> formulas;
  std::vector<std::string> input_names() const;  // parameters, forcing, formulas
  /// "wind = sin(t), load = 2*t", or empty.
  std::string formulas_text() const;

  double closure_step() const { return dt * static_cast<double>(stride); }
};

struct Interval {
  double from = 0;
  double to = 0;
};
/// "[0,1]", as in tables and JSON keys.
std::string to_string(const Interval& interval);

struct EvaluationPlan {
  std::vector<Interval> intervals;      // for the test split
  std::vector<Interval> ood_intervals;  // for the ood split
};

/// Whether `mac rollout` takes a split where none is named: test, ood, statistics.
bool is_rolled_out(std::string_view split);

struct Experiment {
  ConfigTable config;
  std::shared_ptr<const System> system;
  std::shared_ptr<const SystemFamily> family;  // of the parameters that vary; null where none does
  DataPlan data;
  EvaluationPlan evaluation;
  RolloutPlan rollout;
  std::vector<ModelPlan> models;

  /// Both throw UsageError with file, line and key for anything that is not as it should be.
  static Experiment read(const std::string& path);
  static Experiment parse(const std::string& text, const std::string& file);
  /// The experiment inside or beside files that say themselves what their system is: it may be one that this
  /// program does not know.
  static Experiment read(const std::string& path, const SystemDescription& description);
  static Experiment parse(const std::string& text, const std::string& file,
                          const SystemDescription& description);

 private:
  explicit Experiment(ConfigTable table, const SystemDescription* description = nullptr);
};

/// Throws UsageError unless both experiments are about the same [system]: the message names the
/// first key in which they differ, with both values. The files are those the experiments come from.
void check_same_system(const std::string& file, const Experiment& experiment, const std::string& other_file,
                       const Experiment& other);
/// The same for results, where the grid on which the full model was solved may differ.
void check_same_equations(const std::string& file, const Experiment& experiment,
                          const std::string& other_file, const Experiment& other);
/// What [system] says of the equations, defaults included: all but the grid.
std::map<std::string, std::string> equations(const ConfigTable& system);

}  // namespace mac
