// How fast the networks run on this machine, against what its arithmetic could do.
#pragma once

#include <cstddef>
#include <mac/network.hpp>
#include <mac/system.hpp>
#include <string>

namespace mac {

/// Multiply-additions of the linear layers and the convolution for one sample and time step; exponentials and
/// the state-space recurrence come on top and are not counted. Training takes three times as many.
std::size_t multiply_adds(const NetworkShape& shape);

struct Timing {
  double median_seconds = 0;
  double best_seconds = 0;
  double gflops = 0;  // by the median; a multiply-add counts as two
};

/// One step of `batch` samples.
template <class T>
Timing time_step(const NetworkShape& shape, std::size_t batch, int threads);

/// A forward and a backward pass.
template <class T>
Timing time_training(const NetworkShape& shape, SequenceDims dims, int threads);

/// On the CUDA device, with the memory that was taken there.
struct DeviceTiming {
  Timing timing;
  double gigabytes = 0;
  /// Training: tuned, fused (of any size) or general; of an autoregressive rollout loss first those that read the starting states,
  /// then those of the steps: chain where one launch takes all.
  std::string kernels = {};
};

/// What is trained for a benchmark.
struct TrainingWork {
  std::string recipe;             // loss, optimiser, noise and augmentation are this recipe's
  std::size_t batch, length;      // sequences, and their times
  std::size_t models = 1;         // at once
  std::size_t rollout_steps = 0;  // > 0: the rollout loss over so many coupled steps instead, ...
  bool autoregressive = false;    // ... in one of its two forms
};

/// An iteration of `mac train`: batch, loss, gradient and the optimiser's step, on random data.
DeviceTiming time_training_on_device(const System& system, const NetworkShape& shape,
                                     const TrainingWork& work);

/// A forward and a backward pass in float64 on the device, on random data. (A training's loss is then on the host.)
DeviceTiming time_double_passes_on_device(const NetworkShape& shape, SequenceDims dims);

/// One step of `batch` rollouts: network and reduced equations.
DeviceTiming time_step_on_device(const System& system, const NetworkShape& shape, std::size_t batch);

/// What independent fused multiply-adds in registers reach on that many threads at once, in GFLOP/s.
template <class T>
double fma_peak_gflops(int threads);

}  // namespace mac
