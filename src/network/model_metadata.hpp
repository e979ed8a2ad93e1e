// The metadata block of a model file, between text and Model.
#pragma once

#include <mac/model.hpp>

namespace mac {

/// Fills everything but shape, parameters and dtype, which the tensors have given already; throws Error where
/// the metadata contradict them.
void read_metadata(const Safetensors& file, Model& model);

void write_metadata(const Model& model, SafetensorsWriter& writer);

}  // namespace mac
