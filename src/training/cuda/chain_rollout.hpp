// Chains of an autoregressive rollout loss through all their steps in one launch, and back in another: network, coupled
// step and tape, a block of threads to a chain. The way back gives the gradient of every prediction; what it makes of the
// parameters is a backward pass over the chains as sequences, which the engine's own kernels do.
//
// For few chains, where launches and latencies would take the time. Many are better off with a launch of the engine for
// each step (stepwise_rollout_loss.cpp).
#pragma once

#include <cuda_runtime.h>

#include <optional>

#include "network/cuda/launch_plan.hpp"
#include "network/cuda/packed_network.hpp"
#include "training/cuda/rollout_problem.hpp"

namespace mac {
struct ReducedEquations;  // systems/reduced_equations.hpp
}

namespace mac::cuda {

struct KernelName;  // coupling/cuda/written_kernel.hpp

struct ChainRollout {
  RolloutProblem problem;
  PackedSizes network;
  int steps;  // 1..steps-1 are taken; the caller takes step 0

  const float* weights;  // (model, packed): for Reading::forward, or Reading::backward on the way back
  double* z;             // (steps + 1, chain, d)
  float* y;              // (steps, chain, c): the network's outputs
  float* x;              // (chain, steps - 1, d): its inputs
  const float* memory;   // (chain, state): after step 0
  const double* truth;   // (window, states, d)
  double* errors;        // (chain, d): squared errors of step 0, to which the others are added
  float* tape;           // tape_numbers()

  // The way back.
  const double* slopes;  // (window, d)
  double* d_z;           // (chain, d): gradient of z after step 0, but for ...
  float* d_x;            // (chain, d): ... what comes through the network's input there
  double* d_previous;    // (chain, c): of the prediction of step 0, as step 1 holds it
  float* d_y;            // (chain, steps - 1, c)
  float* d_memory;       // (chain, state): gradient of the memory after step 0
};

/// Which of the compiled kernels go both ways, their shared memory, and up to how many chains of a model that is faster
/// than taking turns with the engine.
struct ChainLaunch {
  int forward, backward;
  std::size_t forward_bytes, backward_bytes;
  std::size_t most_chains;
};
/// None where a chain does not fit.
std::optional<ChainLaunch> choose_chain_launch(const PackedSizes& network, const SharedMemory& shared,
                                               int processors);

/// Numbers of the tape of a chain.
std::size_t tape_numbers(const PackedSizes& network, std::size_t steps);

/// The kernels both ways for equations that came as text.
KernelName own_chains_kernel(const PackedSizes& network, const ChainLaunch& launch);
KernelName own_chains_back_kernel(const PackedSizes& network, const ChainLaunch& launch);

void launch_chains(const ReducedEquations& equations, const ChainRollout& run, const ChainLaunch& launch,
                   cudaStream_t stream);
void launch_chains_back(const ReducedEquations& equations, const ChainRollout& run, const ChainLaunch& launch,
                        cudaStream_t stream);

/// packed (model, count) from parameters (model, parameters) by the places of Packer.
void launch_pack(const float* parameters, std::size_t parameter_count, const int* places, int count,
                 int models, float* packed, cudaStream_t stream);

}  // namespace mac::cuda
