// A model file for the runtime's tests: an untrained network with names, units and a coupling of its own.
#pragma once

#include <mac/model.hpp>
#include <mac/network.hpp>
#include <mac/random.hpp>
#include <string>
#include <vector>

#include "coupling/fourier_frame.hpp"
#include "support/files.hpp"

namespace mac::test {

/// A closure for Burgers' equation with three modes.
inline Model burgers_closure(LayerKind kind, HeldClosure held = {Hold::linear, Target::instant},
                             std::uint64_t seed = 1) {
  Model model;
  model.shape = {kind, 6, 6, 22, 2, has_states(kind) ? 12u : 0u};
  model.parameters = initial_parameters(model.shape, seed);
  for (double& value : model.parameters)
    value = static_cast<double>(static_cast<float>(value));  // as on disk
  model.normalisation = {{0.1, 0, 0, 0, 0, -0.02},
                         {0.4, 0.1, 0.05, 0.4, 0.1, 0.05},
                         {0, 0, 0.01, 0, 0, 0},
                         {0.1, 0.1, 0.1, 0.2, 0.2, 0.2}};
  model.system = "burgers";
  model.input_names = {"phi1", "phi2", "phi3", "psi1", "psi2", "psi3"};
  model.output_names = {"c_phi1", "c_phi2", "c_phi3", "c_psi1", "c_psi2", "c_psi3"};
  model.closure_step = 0.01;
  model.held = held;
  return model;
}

/// The same in frames.
inline Model framed_burgers_closure(LayerKind kind, HeldClosure held = {Hold::linear, Target::instant}) {
  Model model = burgers_closure(kind, held);
  model.inputs.frame = Frame::initial;
  return model;
}

inline std::string write_closure(const ScratchFolder& folder, const Model& model,
                                 const std::string& name = "closure.safetensors") {
  save_model(model, folder.file(name));
  return folder.file(name);
}

/// Inputs in physical units: (steps, columns, inputs)
inline std::vector<double> random_inputs(std::size_t steps, std::size_t columns, std::size_t inputs) {
  RandomStream random(7, Purpose::test_data, 0);
  std::vector<double> y(steps * columns * inputs);
  for (double& value : y) value = 0.3 * random.normal();
  return y;
}

/// The same with noise: its last two inputs.
inline Model stochastic_burgers_closure(LayerKind kind) {
  Model model = burgers_closure(kind);
  model.noise = {.channels = 2, .time = 0.05};
  model.shape.d_in += model.noise.channels;
  model.parameters = initial_parameters(model.shape, 3);
  for (double& value : model.parameters) value = static_cast<double>(static_cast<float>(value));
  return model;
}
/// The same with noise of its own for each output, times a deviation that the network predicts.
inline Model deviating_burgers_closure(LayerKind kind) {
  Model model = burgers_closure(kind);
  model.noise = {.channels = model.shape.d_out, .time = 0.05};
  model.shape.d_in += model.noise.channels;
  model.shape.deviations = true;
  model.parameters = initial_parameters(model.shape, 3);
  for (double& value : model.parameters) value = static_cast<double>(static_cast<float>(value));
  return model;
}
inline constexpr std::uint64_t program_seed = 17;  // of the noise, in the programs of tests/runtime/programs

/// What the library's engine gives for them, column by column: (steps, columns, outputs)
template <class T>
std::vector<double> engine_steps(const Model& model, const std::vector<double>& y, std::size_t columns) {
  const StepEngine<T> engine(model.shape, parameters_as<T>(model));
  const auto& [in_mean, in_scale, out_mean, out_scale] = model.normalisation;
  const std::size_t inputs = in_mean.size(), outputs = out_mean.size();
  const std::size_t steps = y.size() / (columns * inputs);
  std::vector<double> closure(steps * columns * outputs);
  std::vector<T> x(model.shape.d_in), c(outputs);
  ColumnFrames frames(model.frame_modes(), columns);
  std::vector<double> state(inputs);
  for (std::size_t j = 0; j < columns; ++j) {
    RedNoise noise(model.noise, model.closure_step.value_or(0), 1);
    std::vector<T> memory(engine.state_size());
    for (std::size_t t = 0; t < steps; ++t) {
      std::copy_n(y.data() + (t * columns + j) * inputs, inputs, state.data());
      if (frames.exist() && t == 0) frames.set(j, fourier_angle(model.frame_modes(), state.data()));
      if (frames.exist()) frames.enter(j, state.data());
      for (std::size_t i = 0; i < inputs; ++i)
        x[i] = static_cast<T>((state[i] - in_mean[i]) * (1 / in_scale[i]));
      noise.advance(0, {program_seed, static_cast<std::uint32_t>(j)}, t);
      for (std::size_t i = 0; i < noise.channels(); ++i) x[inputs + i] = static_cast<T>(noise.of(0)[i]);
      engine.step(1, x.data(), c.data(), memory.data());
      double* const out = closure.data() + (t * columns + j) * outputs;
      for (std::size_t i = 0; i < outputs; ++i)
        out[i] = out_mean[i] + out_scale[i] * static_cast<double>(c[i]);
      if (frames.exist()) frames.leave(j, out);
    }
  }
  return closure;
}

}  // namespace mac::test
