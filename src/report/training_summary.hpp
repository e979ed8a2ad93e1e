// The stages of a training, from the settings that a model file keeps.
#pragma once

#include <mac/evaluation.hpp>
#include <string>

namespace mac::report {

/// One row a stage of `plan`, the text of to_text(TrainingPlan), with the settings that tell stages apart; no rows where it has
/// no stages.
Table stages_table(const std::string& model, const std::string& plan);

}  // namespace mac::report
