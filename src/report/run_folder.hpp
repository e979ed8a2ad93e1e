// What a report is made from.
#pragma once

#include <mac/baselines.hpp>
#include <mac/data.hpp>
#include <mac/evaluation.hpp>
#include <mac/model.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/figures.hpp"
#include "rollout/rollout_file.hpp"

namespace mac::report {

struct TrainedModel {
  std::string name;  // "mac"
  std::string file;  // "mac-seed0.safetensors"
  Model model;
};

struct Source {
  Experiment experiment;
  Evaluation evaluation;
  std::vector<RolloutReader> rollouts;  // for the trajectories that are drawn, and the times of steps
  RolloutData truths;
  std::optional<DataFile> data;
  std::vector<TrainedModel> models;
  std::vector<TrainingHistory> histories;
  std::optional<MemoryKernel> kernel;  // the linear one
  nlohmann::json timing;               // timing.json; null: none
  std::string timing_file;
};

/// Reads the folder; UsageError if it is no run, Error naming the file for one that is broken.
Source read_run(const std::string& folder);
/// `data`: see RolloutFile::open.
Source read_rollouts(const std::vector<std::string>& paths, const std::string& data = {});

}  // namespace mac::report
