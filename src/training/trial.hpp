// One attempt of recipe = "auto": the settings it varies, and how well the network trained with them runs
// free.
#pragma once

#include <limits>
#include <mac/training_plan.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>

namespace mac {

/// What the search varies; the rest is as the plan says.
struct TrialSettings {
  LayerKind kind = LayerKind::mamba;
  double noise = 0;
  double max_lr = 0;
  int size = 0;            // -1: half the width, 0: as planned, 1: twice the width and memory
  bool rollout = false;    // a second stage of free rollouts over the whole horizon
  std::size_t window = 0;  // times of a training sequence; 0: as planned
  bool operator==(const TrialSettings&) const = default;
};

struct Trial {
  TrialSettings settings;
  NetworkShape shape;
  std::size_t steps = 0;
  bool in_full = false;                                    // on all of the training data
  double error = std::numeric_limits<double>::infinity();  // of free rollouts; infinity: the training failed
};

/// The plan with the settings in it, trained for `steps` steps on trajectories of `times` saved times dt apart.
ModelPlan with_settings(const ModelPlan& plan, const TrialSettings& settings, std::size_t steps,
                        std::size_t times, double dt);

/// The same with a network that remembers nothing, of the same width.
ModelPlan without_memory(ModelPlan plan);

/// The plan on the first half of what it learns from, judged by rollouts over all of the `validation` times: whether a
/// closure holds beyond what it has seen is known only where the data go on. As it is where the plan says itself
/// what to learn from, or half of it is too short.
ModelPlan on_first_half(ModelPlan plan, std::size_t times, std::size_t validation, double dt);

/// About what a training costs, in multiply-adds of the network; `times` of a training trajectory.
double training_work(const ModelPlan& plan, std::size_t times, double dt);

/// Whether the experiment leaves a setting open: "kind", "noise", "max_lr", "size", "loss", "window".
bool is_open(const TrainingPlan& plan, std::string_view setting);

/// "mamba, noise 0.05, max_lr 0.004, width 16, state 8"
std::string to_string(const Trial& trial);

/// The outcome of a search.
struct Search {
  std::string equations;       // what the rollouts were judged with, in words
  bool judged = true;          // false: there was nothing to roll out with, and errors are validation losses
  bool on_first_half = false;  // short trials learned from the first half of what the whole trainings did
  double none = 0;             // error without a closure
  std::vector<Trial> trials;
  std::size_t chosen = 0;
  bool cut_by_budget = false;
  /// Of a network without memory with the best trial's settings, and of that trial, after as many steps.
  struct Memoryless {
    double error, with_memory;
  };
  std::optional<Memoryless> memoryless = std::nullopt;

  bool beats_none() const { return judged && trials[chosen].error < none; }
  /// One sentence; empty where the closure is better than none, or nobody knows.
  std::string warning() const;
};

nlohmann::json to_json(const Search& search);
/// A line for each trial, the chosen one marked, and the reason.
std::string to_table(const Search& search);

}  // namespace mac
