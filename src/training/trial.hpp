// One attempt of recipe = "auto": the settings it varies, and how well the network trained with them runs
// free.
#pragma once

#include <limits>
#include <mac/training_plan.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>

namespace mac {

/// Free rollouts in a training: none; a stage of them after the closure loss, not longer than gradients say something;
/// the same over all of the horizon; or nothing but rollouts, short ones first.
enum class Rollouts { none, then, then_whole, alone };

/// What the search varies; the rest is as the plan says.
struct TrialSettings {
  LayerKind kind = LayerKind::mamba;
  double noise = 0;
  double max_lr = 0;
  int size = 0;  // -1: half the width, 0: as planned, 1: twice the width and memory
  Rollouts rollouts = Rollouts::none;
  std::size_t window = 0;  // times of a training sequence; 0: as planned
  Frame frame = Frame::none;
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

/// Whether a rollout may start at any time: hidden variables are then not where they are at the start of the data.
bool starts_anywhere(const TrainingPlan& plan);
/// Whether rollouts over all of the horizon are longer than those of Rollouts::then by a factor that counts.
bool has_longer_rollouts(const TrainingPlan& plan, std::size_t times, double dt);

/// The plan for trajectories of so many times, where it leaves open what depends on that. Of long ones short sequences are
/// learned from, and a few rollouts are judged, long enough for a phase that drifts to be seen: a closure loss may teach a
/// network to read differences, as in Lorenz '96.
TrainingPlan for_their_length(TrainingPlan plan, std::size_t trajectories, std::size_t times, double dt);

/// Steps of a whole training that nobody gave: the more sequences of so many `times` there are to learn from, the more;
/// fewer where they are long, for each step sees more then.
std::size_t usual_steps(std::size_t sequences, std::size_t times);

/// Whether the experiment leaves a setting open: "kind", "noise", "max_lr", "size", "loss", "window", "steps", "batch",
/// "target", "frame", "validation_trajectories".
bool is_open(const TrainingPlan& plan, std::string_view setting);

/// As the tables say it.
std::string_view to_string(Rollouts rollouts);

/// The outcome of a search.
struct Search {
  std::string equations;  // what the rollouts were judged with, in words
  std::string coupling =
      {};  // what is learned, the closure's value at a time or its mean, and why; empty: not judged
  double horizon = 0;          // length of the free rollouts whose errors are compared
  double beyond = 0;           // for how long they went on, to see whether they stay in the range of the data
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

nlohmann::json to_json(const Trial& trial);
nlohmann::json to_json(const Search& search);

}  // namespace mac
