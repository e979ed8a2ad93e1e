// Step mode: the network's weights packed for one time step with channels in vector lanes.
//
// A linear layer becomes out = bias + Σ_i x[i]·W[:, i]: one broadcast input times a row of packed weights,
// the outputs in lanes. Rows are padded with zeros to whole vectors, so padding channels stay zero all the
// way.
#pragma once

#include <cstddef>
#include <mac/network.hpp>
#include <vector>

#include "network/cpu/aligned.hpp"

namespace mac::cpu {

template <class T>
struct PackedLinear {
  const T* weight;      // (inputs, outputs)
  const T* bias;        // (outputs); null: none
  std::size_t inputs;   // not padded
  std::size_t outputs;  // padded
};

template <class T>
struct PackedNorm {
  const T* weight;  // (padded d_model)
  const T* bias;
};

template <class T>
struct PackedMamba {
  PackedLinear<T> in_proj;  // d_model -> x, then z, each padded
  const T* conv_weight;     // (d_conv, padded d_inner)
  const T* conv_bias;       // (padded d_inner)
  PackedLinear<T> x_proj;   // d_inner -> dt, B, C without gaps
  PackedLinear<T> dt_proj;  // dt_rank -> d_inner
  const T* decay_rate;      // (d_state, padded d_inner): A·log2(e)
  const T* D;               // (padded d_inner)
  PackedLinear<T> out_proj;
};

template <class T>
struct PackedGru {
  PackedLinear<T> input;   // d_model -> r, z, n, each padded
  PackedLinear<T> hidden;  // likewise
};

template <class T>
struct PackedBlock {
  PackedNorm<T> norm;
  PackedMamba<T> mamba;
  PackedGru<T> gru;
};

template <class T>
struct PackedNetwork {
  NetworkShape shape;
  std::size_t lanes = 1;
  std::size_t model = 0;   // padded d_model
  std::size_t inner = 0;   // padded d_inner
  std::size_t wide = 0;    // padded width of a block's widest layer
  std::size_t narrow = 0;  // padded width of x_proj
  PackedLinear<T> input_proj;
  std::vector<PackedBlock<T>> blocks;
  PackedNorm<T> norm;
  PackedLinear<T> hidden_proj;
  PackedLinear<T> output_proj;
  AlignedArray<T> storage;

  /// Numbers of scratch space for one sample.
  std::size_t scratch_size() const { return 2 * model + wide + 3 * inner + narrow + output_proj.outputs; }
};

/// Samples that go through the network together and share each load of a weight.
constexpr std::size_t kStepTile = 4;

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
