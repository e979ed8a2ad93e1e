// What a report is made from.
#pragma once

#include <mac/baselines.hpp>
#include <mac/data.hpp>
#include <mac/model.hpp>
#include <mac/rollout.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/figures.hpp"

namespace mac::report {

struct TrainedModel {
  std::string name;  // "mac"
  std::string file;  // "mac-seed0.safetensors"
  Model model;
};

struct Source {
  Experiment experiment;
  std::vector<RolloutFile> rollouts;
  std::optional<DataFile> data;
  std::vector<TrainedModel> models;
  std::vector<TrainingHistory> histories;
  std::optional<MemoryKernel> kernel;  // the linear one
  nlohmann::json timing;               // timing.json; null: none
  std::string timing_file;
};

/// Reads the folder; UsageError if it is no run, Error naming the file for one that is broken.
Source read_run(const std::string& folder);
Source read_rollouts(const std::vector<std::string>& paths);

}  // namespace mac::report
