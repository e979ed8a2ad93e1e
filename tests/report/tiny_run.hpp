// A run folder as `mac run` leaves it, made in a moment: few short trajectories, untrained networks.
#pragma once

#include <filesystem>
#include <mac/data.hpp>
#include <mac/experiment.hpp>
#include <mac/model.hpp>
#include <mac/rollout.hpp>
#include <string>

#include "support/files.hpp"

namespace mac::test {

inline const char* const tiny_burgers = R"([system]
name = "burgers"
viscosity = 0.1
modes = 3
grid = 32
[data]
dt = 1e-3
stride = 10
[data.train]
trajectories = 2
horizon = 0.2
[data.test]
trajectories = 3
horizon = 0.4
[data.ood]
horizon = 0.5
initial = { kind = "fields", fields = ["sin", "exp_sin"] }
[[models]]
name = "mac"
kind = "mamba"
d_model = 4
blocks = 1
d_state = 2
[[models]]
name = "gru"
kind = "gru"
d_model = 4
blocks = 1
[training]
recipe = "fast"
[evaluation]
intervals = [[0, 0.2], [0, 0.4]]
)";

inline const char* const tiny_lorenz = R"([system]
name = "lorenz96"
N = 8
J = 4
F = 10.0
h = 1.0
c = 10.0
b = 10.0
warmup_steps = 200
[data]
dt = 0.005
stride = 2
[data.train]
trajectories = 1
horizon = 1.0
[data.test]
trajectories = 3
horizon = 0.5
[[models]]
name = "mac"
kind = "mamba"
d_model = 4
blocks = 1
d_state = 2
[training]
recipe = "fast"
)";

/// An untrained network whose closure is small, so that rollouts stay finite.
inline Model untrained_model(const Experiment& experiment, const ModelPlan& plan, std::uint64_t seed) {
  Model model;
  model.shape = plan.network->shape;
  model.parameters = initial_parameters(model.shape, seed);
  model.normalisation = Normalisation::identity(model.shape);
  model.normalisation.output_scale.assign(model.shape.d_out, 1e-3);
  model.system = experiment.system->name();
  model.input_names = experiment.system->resolved_names();
  model.output_names = experiment.system->closure_names();
  model.closure_step = experiment.data.closure_step();
  model.held = HeldClosure{};
  model.provenance = {{"name", plan.name}, {"training", "steps = 0\n"}, {"validation_loss", "0.5"}};
  return model;
}

/// Writes the folder; `seeds` of every network.
inline void make_run(const std::filesystem::path& folder, const std::string& text, std::size_t seeds = 1) {
  namespace fs = std::filesystem;
  fs::create_directories(folder / "models");
  fs::create_directories(folder / "rollouts");
  write_bytes((folder / "experiment.toml").string(), text);
  const Experiment experiment = Experiment::parse(text, "experiment.toml");
  generate(experiment, (folder / "data.h5").string(), {1, true});
  const DataFile data = DataFile::open((folder / "data.h5").string());
  RolloutOptions options;
  options.threads = 1;
  options.quiet = true;
  options.time_steps = true;
  for (const ModelPlan& plan : experiment.models)
    for (std::size_t seed = 0; seed < seeds; ++seed) {
      const Model model = untrained_model(experiment, plan, seed);
      const std::string name = plan.name + "-seed" + std::to_string(seed);
      save_model(model, folder / "models" / (name + ".safetensors"));
      write_bytes((folder / "models" / (name + ".history.csv")).string(),
                  "step,loss,lr,gradient_norm,validation\n1,1.5,1e-3,2,\n2,0.75,1e-3,1,0.5\n");
      rollout(*make_network_closure(model, plan.name, *model.held), data,
              (folder / "rollouts" / (name + ".h5")).string(), options);
    }
  rollout(*make_markov(), data, (folder / "rollouts" / "markov.h5").string(), options);
  rollout(*make_exact({}), data, (folder / "rollouts" / "exact.h5").string(), options);
  write_bytes((folder / "timing.json").string(),
              R"({"machine": "an EPYC, 2 threads", "stages": {"generate": 1.5}, "training": [
  {"kind": "mamba", "length": 100, "milliseconds_per_iteration": 10.0},
  {"kind": "mamba", "length": 1000, "milliseconds_per_iteration": 95.0}]})");
}

}  // namespace mac::test
