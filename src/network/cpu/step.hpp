// Step mode: the network's weights packed for one time step with channels in vector lanes.
#pragma once

#include <cstddef>
#include <mac/network.hpp>
#include <memory>
#include <vector>

#include "network/cpu/aligned.hpp"
#include "network/cpu/packer.hpp"
#include "network/cpu/step_blocks.hpp"

namespace mac::cpu {

template <class T>
struct PackedNorm {
  const T* weight;  // (padded d_model)
  const T* bias;
};

template <class T>
struct PackedNetwork {
  NetworkShape shape;
  std::size_t lanes = 1;
  std::size_t model = 0;        // padded d_model
  std::size_t block_state = 0;  // numbers of a block's state
  std::size_t state_size = 0;   // of a sample, those of all members of an ensemble
  PackedLinear<T> input_proj;
  std::vector<PackedNorm<T>> norms;       // one a block
  std::unique_ptr<StepBlocks<T>> layers;  // of all blocks
  PackedNorm<T> norm;
  PackedLinear<T> hidden_proj;
  PackedLinear<T> output_proj;
  AlignedArray<T> storage;

  /// Numbers of scratch space for one sample.
  std::size_t scratch_size() const { return 2 * model + layers->scratch_size() + output_proj.outputs; }
};

template <class T>
struct StepKernels {
  std::size_t lanes;
  /// x (count, d_in) -> y (count, d_out), state (count, state_size) in place; scratch holds kStepTile
  /// samples.
  void (*step)(const PackedNetwork<T>& network, std::size_t count, const T* x, T* y, T* state, T* scratch);
};

/// Those for this machine.
template <class T>
StepKernels<T> step_kernels();

}  // namespace mac::cpu
