// Fine-tuning: a trained network's weights as the start of another training.
#pragma once

#include <mac/experiment.hpp>
#include <mac/model.hpp>
#include <vector>

#include "coupling/input_map.hpp"

namespace mac {

/// The parameters that a training with `init` starts from, and what had to be done to them in a sentence.
struct FineTuningStart {
  std::vector<double> parameters;
  std::string remark;
};

/// UsageError, naming the file, where its network is of another shape or for other variables.
FineTuningStart start_from(const std::string& file, const NetworkPlan& plan, const InputMap& inputs,
                           const Experiment& experiment, const Normalisation& normalisation);

}  // namespace mac
