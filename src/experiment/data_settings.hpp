// The settings of [data] itself, whose splits have tables of their own, and of [rollout].
#pragma once

#include <mac/experiment.hpp>
#include <mac/reduced_step.hpp>

#include "io/settings.hpp"

namespace mac {

const SettingTable<DataPlan>& data_settings();
const SettingTable<RolloutPlan>& rollout_settings();  // of [rollout]

}  // namespace mac
