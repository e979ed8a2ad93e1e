// Chains of an autoregressive rollout loss through all their steps in one launch, and back in another: network, coupled
// step and tape. The way back gives the gradient of every prediction; what it makes of the parameters is a backward
// pass over the chains as sequences, which the engine's own kernels do.
#pragma once

#include <optional>

#include "coupling/cuda/device_equations.hpp"
#include "network/cuda/launch_plan.hpp"
#include "network/cuda/packed_network.hpp"
#include "training/cuda/coupled_chains.hpp"

namespace mac::cuda {

/// Chains are numbered as in RolloutProblem; a sequence is a chain's number among those of its model, (model, chain).
struct ChainRollout {
  RolloutProblem problem;
  PackedSizes network;
  DeviceEquations equations;
  int models, steps;  // steps 1..steps-1 are taken; the caller takes step 0

  const float* weights;    // (model, packed): for Reading::forward, or Reading::backward on the way back
  double* z;               // (steps + 1, chain, d)
  float* y;                // (steps, chain, c): the network's outputs
  float* x;                // (sequence, steps - 1, d): its inputs
  const float* memory;     // (chain, state): after step 0
  float* sequence_memory;  // (sequence, state): the same
  const double* truth;     // (window, states, d)
  double* errors;          // (chain, d): squared errors of step 0, to which the others are added
  float* tape;             // tape_numbers()

  // The way back.
  const double* slopes;  // (window, d)
  double* d_z;           // (chain, d): gradient of z after step 0, but for ...
  float* d_x;            // (chain, d): ... what comes through the network's input there
  double* d_previous;    // (chain, c): of the prediction of step 0, as step 1 holds it
  float* d_y;            // (sequence, steps - 1, c)
  float* d_memory;       // (chain, state): gradient of the memory after step 0

  int chains_of_model() const { return problem.chains() / models; }
};

/// How both ways are launched.
struct ChainLaunch {
  int forward, backward;                      // places in the tables of compiled kernels
  int group;                                  // chains to a block of threads
  std::size_t forward_bytes, backward_bytes;  // of shared memory
};

/// For `chains` chains of each model; none where not even one fits. The bits do not depend on the choice.
std::optional<ChainLaunch> choose_chain_launch(const PackedSizes& network, int models, int chains,
                                               const SharedMemory& shared, int processors);

/// Numbers of the tape of that many chains of a model.
std::size_t tape_numbers(const PackedSizes& network, int chains, int steps);

void launch_chains(const ChainRollout& run, const ChainLaunch& launch, cudaStream_t stream);
void launch_chains_back(const ChainRollout& run, const ChainLaunch& launch, cudaStream_t stream);

/// packed (model, count) from parameters (model, parameters) by the places of Packer.
void launch_pack(const float* parameters, std::size_t parameter_count, const int* places, int count,
                 int models, float* packed, cudaStream_t stream);

}  // namespace mac::cuda
