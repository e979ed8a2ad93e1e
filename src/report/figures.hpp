// The figures of the report, each from what it shows.
#pragma once

#include <mac/baselines.hpp>
#include <mac/evaluation.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/memory_response.hpp"
#include "report/figure.hpp"
#include "rollout/rollout_file.hpp"

namespace mac::report {

/// One trajectory of a split as every model continues it, the first file of each model.
struct Case {
  struct Rollout {
    std::string model;
    std::vector<double> time, resolved, closure;  // (n_time), (n_time, d), (n_time, c)
  };
  std::string split;
  std::size_t trajectory = 0;
  Rollout truth;
  std::vector<Rollout> models;
};

/// The trajectory whose error, for the first learned model, is the median of the split; none if no rollout
/// has the split. Of the rollouts only this trajectory is read.
std::optional<Case> representative_case(const Evaluation& evaluation,
                                        const std::vector<RolloutReader>& rollouts, RolloutData& truths,
                                        const std::string& split);

enum class Quantity { resolved, closure };
/// Truth and models, the absolute error below, one panel a variable; a table of the relative errors. Of many variables a few
/// are drawn so, and a second figure has small panels of all, or of as many as a page bears.
std::vector<Figure> trajectory_figures(const Experiment& experiment, const Case& shown, Quantity quantity);
/// A field on a ring or a line over time: truth, models, and their differences from it. None where the system has no
/// lattice of one direction.
std::optional<Figure> space_time_figure(const Experiment& experiment, const Case& shown);
/// Energy of the resolved modes and its error.
Figure energy_figure(const Experiment& experiment, const Case& shown);

/// Errors over time, means over the trajectories of each split: physical-space error where there is a field
/// (and for each named trajectory), running error and correlation where there is none.
std::vector<Figure> series_figures(const Evaluation& evaluation);

/// Distributions, autocorrelation and power spectrum of long runs, where there are statistics.
std::vector<Figure> statistics_figures(const Evaluation& evaluation);

/// CRPS, error and spread over lead times, rank histograms and reliability, where rollouts have several members.
std::vector<Figure> verification_figures(const Evaluation& evaluation);

/// Error against each parameter that varies, inside and outside of its range in the training data.
std::vector<Figure> parameter_figures(const Evaluation& evaluation);

/// Wall time of each step against its index.
struct StepTimes {
  std::string model, split;
  std::size_t trajectories = 0;  // of the split, which advance in groups
  std::vector<double> seconds;
};
std::vector<StepTimes> step_times(const std::vector<RolloutReader>& rollouts);
std::optional<Figure> step_time_figure(const std::vector<StepTimes>& times);

/// Rows of a NAME.history.csv.
struct TrainingHistory {
  std::string model;
  std::vector<double> step, loss;
  std::vector<double> validation_step, validation;
};
TrainingHistory read_history(const std::string& path, const std::string& model);
std::optional<Figure> training_figure(const std::vector<TrainingHistory>& histories);

/// Time of a training iteration against the length of its sequences, from the "training" list of
/// timing.json (see docs/report.md); none where it holds no measurement. `file` is for messages.
std::optional<Figure> training_time_figure(const nlohmann::json& timing, const std::string& file);

struct NamedResponse {
  std::string model;
  MemoryResponse response;
};
/// How strongly the past acts on each closure component, beside the linear Mori–Zwanzig kernel if given.
Figure memory_figure(const std::vector<NamedResponse>& responses, const MemoryKernel* kernel,
                     std::string_view time_unit);

/// "time t", with the unit where the equations have one.
std::string time_label(std::string_view unit);

}  // namespace mac::report
