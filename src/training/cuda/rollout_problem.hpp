// The chains of a rollout loss, as kernels take them. Chain (w, t) starts from state t of window w; windows of all models
// are numbered through.
#pragma once

#include <cstddef>
#include <mac/hold.hpp>
#include <mac/host_device.hpp>

#include "network/normaliser.hpp"

namespace mac::cuda {

/// Largest number of resolved variables: a lane of a warp for each.
inline constexpr std::size_t most_variables = 32;

struct RolloutProblem {
  int windows, windows_of_model, starts, states;
  bool autoregressive;  // chains ordered by model, then t, then window; else by window, then t
  int d, c;
  int given = 0;  // inputs of the network from outside, behind the variables
  double dt;
  HeldClosure held;
  int drives[most_variables];  // closure that drives variable v, or -1
  NormaliserView input, output;

  MAC_HOST_DEVICE int inputs() const { return d + given; }
  MAC_HOST_DEVICE int chains() const { return windows * starts; }
  MAC_HOST_DEVICE int chains_of_model() const { return windows_of_model * starts; }
  MAC_HOST_DEVICE int chain(int w, int t) const {
    if (!autoregressive) return w * starts + t;
    return w / windows_of_model * chains_of_model() + t * windows_of_model + w % windows_of_model;
  }
  MAC_HOST_DEVICE int window(int chain) const {
    if (!autoregressive) return chain / starts;
    return chain / chains_of_model() * windows_of_model + chain % windows_of_model;
  }
  MAC_HOST_DEVICE int time(int chain) const {
    return autoregressive ? chain % chains_of_model() / windows_of_model : chain % starts;
  }
};

/// Arrays of step s: what goes in, the network's output and that of the step before (null in step 0, where
/// the prediction before is that of the chain one state earlier).
struct CoupledArrays {
  int s;
  const double* z;
  const float *y, *previous_y;
  const double* truth;
  const float* given = nullptr;  // (window, states, given)
};

}  // namespace mac::cuda
