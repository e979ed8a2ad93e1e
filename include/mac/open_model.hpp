// From what a user names on the command line to a closure model.
#pragma once

#include <mac/rollout.hpp>
#include <optional>
#include <string>

namespace mac {

struct ModelRequest {
  std::string model;                                  // "markov", "exact", or a model file
  std::string name;                                   // in files and tables; empty: the model's own
  std::optional<Hold> hold;                           // default: the model's own
  std::optional<Target> target;                       // exact only
  std::optional<Precision> precision = std::nullopt;  // networks only; default: that of the file
  bool on_device = false;                             // networks only: roll out on the CUDA device
  bool allow_other_parameters = false;  // than those of the system that the model was trained with
};

/// Throws UsageError if the model does not fit the data: another system or other parameters of it, other
/// variables, another step.
std::unique_ptr<ClosureModel> open_model(const ModelRequest& request, const DataFile& data);

/// Trajectories that a command rolls out for the file's validation_error.
inline constexpr std::size_t validation_trajectories = 16;

/// Opens the model and rolls it out; UsageError if the rollout would overwrite the model or the data.
void rollout(const ModelRequest& request, const DataFile& data, const std::string& path,
             const RolloutOptions& options);

/// The same check of a network; `path` is its file, `source` the one that the experiment comes from.
void check_fits(const std::string& path, const Model& model, const Experiment& experiment,
                const std::string& source, bool allow_other_parameters = false);

/// The same check of a trained model before there are data: what the experiment says of them counts.
void check_trained_model(const std::string& path, const Experiment& experiment, bool allow_other_parameters);

}  // namespace mac
