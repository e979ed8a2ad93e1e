// How fast the networks run on this machine, against what its arithmetic could do.
#pragma once

#include <cstddef>
#include <mac/network.hpp>
#include <mac/system.hpp>

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
};

/// A training iteration as `mac train` does it (batch, loss, gradient, AdamW) of `models` models at once;
/// rollout_steps > 0: with the rollout loss over that many coupled steps, in one of its two forms.
DeviceTiming time_training_on_device(const System& system, const NetworkShape& shape, SequenceDims dims,
                                     std::size_t models, std::size_t rollout_steps, bool autoregressive);

/// One step of `batch` rollouts: network and reduced equations.
DeviceTiming time_step_on_device(const System& system, const NetworkShape& shape, std::size_t batch);

/// What independent fused multiply-adds in registers reach on that many threads at once, in GFLOP/s.
template <class T>
double fma_peak_gflops(int threads);

}  // namespace mac
