// The settings of [data] itself; its splits have tables of their own.
#pragma once

#include <mac/experiment.hpp>

#include "io/settings.hpp"

namespace mac {

const SettingTable<DataPlan>& data_settings();
const SettingTable<RolloutPlan>& rollout_settings();  // of [rollout]

}  // namespace mac
