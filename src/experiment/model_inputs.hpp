// What a model of [[models]] reads: `local`, [models.inputs] and `frame`.
#pragma once

#include <mac/config.hpp>
#include <mac/experiment.hpp>

#include "coupling/input_map.hpp"

namespace mac {

/// What the data have beside the state, but for parameters of the system that are the same in all of training.
std::vector<std::string> default_given(const DataPlan& data);

/// `given`: what comes from outside unless the table says it.
NetworkInputs read_model_inputs(const ConfigTable& table, std::vector<std::string> given);

/// UsageError with file, line and key for what the system or the data do not have.
InputMap bind_inputs(const NetworkInputs& inputs, const System& system, const DataPlan& data,
                     const ConfigTable& table);

}  // namespace mac
