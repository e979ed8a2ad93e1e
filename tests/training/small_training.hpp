// A Burgers training that takes a fraction of a second, and its data.
#pragma once

#include <mac/training.hpp>
#include <string>

#include "support/files.hpp"

namespace mac::test {

/// `of_model`: further keys of the model.
inline std::string small_experiment(const std::string& training = "", const std::string& of_model = "") {
  return R"(
[system]
name = "burgers"
grid = 32
[data]
dt = 5e-3
stride = 10
[data.train]
trajectories = 12
horizon = 1
[data.validation]
trajectories = 3
horizon = 1
[[models]]
name = "mac"
kind = "mamba"
d_model = 5
blocks = 2
d_state = 3
)" + of_model +
         R"([training]
batch = 5
steps = 30
validate_every = 10
checkpoint_every = 7
averaging = 0.9
noise = 1e-3
)" + training;
}

/// The data file of small_experiment(), made once.
inline const std::string& small_data() {
  static const ScratchFolder folder;
  static const std::string path = [] {
    generate(Experiment::parse(small_experiment(), "small.toml"), folder.file("small.h5"), {1, true});
    return folder.file("small.h5");
  }();
  return path;
}

/// Trains and returns the bytes of the model.
inline std::string trained_bytes(const std::string& training, const std::string& path,
                                 const TrainOptions& options = {1, true, false},
                                 const std::string& of_model = "") {
  const Experiment experiment = Experiment::parse(small_experiment(training, of_model), "small.toml");
  train(experiment, experiment.models.at(0), DataFile::open(small_data()), path, options);
  return read_bytes(path);
}

}  // namespace mac::test
