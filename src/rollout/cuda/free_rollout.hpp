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

struct KernelName;       // coupling/cuda/written_kernel.hpp
struct DeviceEquations;  // coupling/cuda/device_equations.hpp

/// Largest number of resolved variables.
inline constexpr int most_rolled_variables = 32;

struct RolloutRun {
  PackedSizes network;
  const DeviceEquations* equations_of;  // (count), where parameters vary, else null
  int members;                          // networks of these sizes whose outputs are added up
  int d;                                // resolved variables
  int count;                            // trajectories
  int first, end, times;                // steps first..end-1 of `times` are taken
  int offset;                           // number of step 0 in the data
  int history;                          // y is the truth up to and including this step
  bool continued;                       // step 0 has its prediction already
  double dt;
  HeldClosure held;
  int drives[most_rolled_variables];  // closure that drives variable v, or -1
  double bound;                       // beyond it a trajectory has blown up
  const float* weights;               // (members, ·), packed
  NormaliserView input, output;       // in device memory
  // (d_in): the variable that an input of the network is, or ~k for number k of what is given; null: all in order
  const int* reads;
  const double* given;  // (count, times, given_size), from outside
  int given_size;

  // Carried from launch to launch.
  double* y;         // (count, d): state at step `first`
  double* closure;   // (count, d_out): continued only, the prediction of step 0
  double* previous;  // (count, d_out): the prediction before
  float* recurrent;  // (count, members, state_size): what the networks remember
  int* blow_up;      // (count): first step at which it had blown up, or -1

  const double* truth;           // (count, history + 1, d), or null
  double *resolved, *predicted;  // (count, times, ·): results, NaN after a blow-up
};

/// How a rollout is launched.
struct RolloutLaunch {
  int variant;        // place in the table of compiled kernels
  int blocks;         // of the launch
  int threads;        // of a block
  std::size_t bytes;  // of shared memory
};

/// The smallest groups that fit and with which blocks go the fewest rounds, each of which takes a group through all
/// steps; none if not even one trajectory's state fits. Twelve trajectories take 1.8 times as long as one.
std::optional<RolloutLaunch> choose_launch(const PackedSizes& network, int d, int count,
                                           const SharedMemory& shared, int processors);

/// The kernel of such a launch for equations that came as text.
KernelName own_rollout_kernel(const PackedSizes& network, const RolloutLaunch& launch);

void launch_rollout(const ReducedEquations& equations, const RolloutRun& run, const RolloutLaunch& launch,
                    cudaStream_t stream);

}  // namespace mac::cuda
