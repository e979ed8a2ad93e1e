// The experiment that a run folder keeps.
#pragma once

#include <mac/experiment.hpp>
#include <string>

namespace mac {

/// The experiment's text with the `file` of every trained model its copy, models/NAME.safetensors, and `init` as
/// a whole path: seen from the run folder it is the same study.
std::string text_with_copies(const Experiment& experiment);

}  // namespace mac
