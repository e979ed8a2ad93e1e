// Rollouts on the device: network and reduced equations in one kernel over many steps.
#pragma once

#include <cuda_runtime.h>

#include <mac/hold.hpp>
#include <optional>

#include "network/cuda/launch_plan.hpp"
#include "network/cuda/packed_network.hpp"
#include "network/normaliser.hpp"

namespace mac {
struct ReducedEquations;  // systems/reduced_equations.hpp
}

namespace mac::cuda {

struct KernelName;  // coupling/cuda/written_kernel.hpp

/// Largest number of resolved variables.
inline constexpr int most_rolled_variables = 32;

struct RolloutRun {
  PackedSizes network;
  int count;              // trajectories
  int first, end, times;  // steps first..end-1 of `times` are taken
  int offset;             // number of step 0 in the data
  int history;            // y is the truth up to and including this step
  bool continued;         // step 0 has its prediction already
  double dt;
  HeldClosure held;
  int drives[most_rolled_variables];  // closure that drives variable v, or -1
  double bound;                       // beyond it a trajectory has blown up
  const float* weights;               // packed
  NormaliserView input, output;       // in device memory

  // Carried from launch to launch.
  double* y;         // (count, d_in): state at step `first`
  double* closure;   // (count, d_out): continued only, the prediction of step 0
  double* previous;  // (count, d_out): the prediction before
  float* recurrent;  // (count, state_size): what the network remembers
  int* blow_up;      // (count): first step at which it had blown up, or -1

  const double* truth;           // (count, history + 1, d_in), or null
  double *resolved, *predicted;  // (count, times, ·): results, NaN after a blow-up
};

/// How a rollout is launched.
struct RolloutLaunch {
  int variant;        // place in the table of compiled kernels
  int blocks;         // of the launch
  std::size_t bytes;  // of shared memory
};

/// The largest groups that fit and leave no multiprocessor without one, else the smallest that fit; none if
/// not even one trajectory's state fits.
std::optional<RolloutLaunch> choose_launch(const PackedSizes& network, int count, const SharedMemory& shared,
                                           int processors);

/// The kernel of such a launch for equations that came as text.
KernelName own_rollout_kernel(const PackedSizes& network, const RolloutLaunch& launch);

void launch_rollout(const ReducedEquations& equations, const RolloutRun& run, const RolloutLaunch& launch,
                    cudaStream_t stream);

}  // namespace mac::cuda
