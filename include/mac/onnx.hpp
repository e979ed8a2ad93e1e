// A closure network as an ONNX graph of one time step, for any onnxruntime (opset 17: 1.12 or later).
//
//   resolved (batch, d_in) float64, state (batch, state_size) float32
//     -> closure (batch, d_out) float64, next_state (batch, state_size) float32
//
// resolved and closure are in physical units: the graph holds the normalisation. The state is laid out as
// NetworkShape::state_size() says, so a state of a StepEngine goes on in onnxruntime and the other way round;
// a new one is zeros. As in a rollout, the normalisation is float64 and the network float32.
#pragma once

#include <filesystem>
#include <mac/model.hpp>
#include <string>

namespace mac {

/// The bytes of the .onnx file. What the model knows about its coupling (system, names, closure_step, hold,
/// target) is in the file's metadata_props.
std::string onnx_bytes(const Model& model);

/// Writes the file atomically.
void export_onnx(const Model& model, const std::filesystem::path& path);
/// Of a model file, which is returned; UsageError where the output would take its place.
Model export_onnx(const std::string& model_file, const std::filesystem::path& path);

}  // namespace mac
