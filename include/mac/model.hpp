// A trained closure network with everything needed to apply it. On disk: a safetensors file whose tensors
// have the names of a PyTorch state_dict of the same network, and whose metadata say the rest.
//
// Metadata keys (all values are text; lists are JSON arrays):
//   format_version             "1"; "2" of a file with a frame, which a program that reads "1" must not overlook
//   kind, d_in, d_out, d_model, n_blocks, d_state, d_conv, expand; members of an ensemble; deviations: "true"
//   system                     "burgers"
//   input_names, output_names  what the network reads, in order, and the closure's components
//   state_inputs, given_inputs, local_of, local_stencil   where that is not all resolved variables: features of the
//                              state, what comes from outside, lattices and stencil (from, to of each direction)
//   frame                      "initial" where it sees Fourier modes, which its inputs begin with, in the frame of the
//                              first state
//   closure_targets            for each component of the closure the input, from 0, to whose equation it is added
//   input_mean, input_scale, output_mean, output_scale
//   input_low, input_high, output_low, output_high   least and largest values in the training data
//   input_average, input_covariance                  of the training inputs; the latter row by row
//   closure_step               time between two steps of the network
//   hold, target               how the closure is coupled to the reduced equations
//   noise_channels, noise_time of a stochastic closure: how many of the d_in inputs, the last, are noise; its lists
//                              about the inputs do without them
//   recipe, program            how it was trained, by which version
// Any other key is provenance. A file without metadata, as PyTorch users write it, is a model as well: kind
// and sizes are read off the tensors, the normalisation is the identity.
#pragma once

#include <filesystem>
#include <mac/hold.hpp>
#include <mac/network.hpp>
#include <mac/network_inputs.hpp>
#include <mac/noise.hpp>
#include <mac/precision.hpp>
#include <mac/safetensors.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mac {

/// The network sees (input − input_mean)/input_scale and gives (output − output_mean)/output_scale.
struct Normalisation {
  std::vector<double> input_mean, input_scale;    // (inputs: d_in without noise)
  std::vector<double> output_mean, output_scale;  // (d_out)

  static Normalisation identity(const NetworkShape& shape, const NoiseInputs& noise = {});
  bool operator==(const Normalisation&) const = default;
};

/// What the network has seen: guards of the runtime compare with it.
struct TrainingRange {
  std::vector<double> input_low, input_high;    // (d_in)
  std::vector<double> output_low, output_high;  // (d_out)
  std::vector<double> input_average;            // (d_in), or empty
  std::vector<double> input_covariance;         // (d_in, d_in), or empty

  bool operator==(const TrainingRange&) const = default;
};

struct Model {
  NetworkShape shape;
  NoiseInputs noise;               // the last inputs of the network; needs a closure_step
  std::vector<double> parameters;  // as ParameterLayout(shape) says
  Dtype dtype = Dtype::f32;        // of the parameters in the file: F32 or F64
  Normalisation normalisation;

  // What a file without metadata leaves empty.
  std::string system;
  std::vector<std::string> input_names, output_names;
  NetworkInputs inputs;                      // how they are read of a state
  std::vector<std::size_t> closure_targets;  // (d_out): component j is added to the equation of this input
  std::optional<TrainingRange> training_range;
  std::optional<double> closure_step;
  std::optional<HeldClosure> held;
  std::string recipe;
  std::string program;                            // version that trained it; empty: that saves it
  std::map<std::string, std::string> provenance;  // the experiment's text, the seed, ...

  /// Fourier modes that it sees in frames (src/coupling/fourier_frame.hpp); 0: it sees its inputs as they are.
  std::size_t frame_modes() const { return inputs.frame == Frame::initial ? shape.d_out / 2 : 0; }
  /// Numbers that a state or a caller gives: the network's inputs without noise.
  std::size_t input_size() const { return shape.d_in - noise.channels; }

  /// What the network computes in unless one says otherwise: what its file stores.
  Precision precision() const { return dtype == Dtype::f64 ? Precision::float64 : Precision::float32; }
};

/// Throws Error naming file and tensor (or metadata key) for anything that is not as it should be: a tensor
/// missing, unknown, of another shape or not finite; metadata that contradict the tensors.
Model load_model(const std::filesystem::path& path);
Model model_from(const Safetensors& file);

/// The input to whose equation each component of the closure is added: as the model says; else, where it reads all
/// resolved variables, by names, where C_x belongs to the equation of x; else in order, where there are as many
/// components as variables. Empty where none of that tells.
std::vector<std::size_t> find_closure_targets(const Model& model);

/// Writes the file atomically. The parameters are rounded when dtype is F32; `program` is set to this
/// version.
void save_model(const Model& model, const std::filesystem::path& path);

/// The parameters in an engine's scalar.
template <class T>
std::vector<T> parameters_as(const Model& model) {
  return std::vector<T>(model.parameters.begin(), model.parameters.end());
}

}  // namespace mac
