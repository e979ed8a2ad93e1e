// The settings of [training], of its stages and of the networks in [[models]]: every key once.
#pragma once

#include <mac/training_plan.hpp>

#include "io/settings.hpp"

namespace mac {

const SettingTable<TrainingPlan>& training_settings();
const SettingTable<StagePlan>&
stage_settings();  // in [training] for all stages, in [[training.stages]] for one
const SettingTable<NetworkShape>& size_settings(LayerKind kind);
const SettingTable<NoiseInputs>& noise_settings();

/// A plan before its stages are known: `stage` is what they start from.
struct Draft {
  TrainingPlan plan;
  StagePlan stage;
};

std::vector<std::string> recipe_names();
Draft recipe(const std::string& name);

/// As the experiment file spells it.
std::string_view to_string(LossKind kind);

}  // namespace mac
