// What the general path of a selective layer runs between its products: the convolution and the selective scan (the
// equations are in reference.hpp). Matrices are (rows, channels), a row a time step of a sequence.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <mac/host_device.hpp>

#include "network/cuda/general/block_states.hpp"

namespace mac::selective {

using cuda::BlockStates;

// -- convolution and SiLU ---------------------------------------------------------------------------------------------

struct Convolution {
  int batch, time, inner;
  const float* x;  // (rows, inner), rows 2·inner apart
  const float *weight, *bias;
  BlockStates<const float> initial;  // (3, inner): the inputs before the sequence
};

/// v = SiLU(c); the last three inputs go to the final states.
void convolution_forward(const Convolution& problem, float* v, BlockStates<float> final_state,
                         cudaStream_t stream);

struct ConvolutionGradients {
  const float* d_v;                  // (rows, inner)
  float* d_x;                        // (rows, inner), rows 2·inner apart
  BlockStates<const float> d_final;  // (3, inner)
  BlockStates<float> d_initial;
  float* parts;  // (convolution_parts, 5·inner): gradients of weight (inner, 4), then of the bias (inner)
};
std::size_t convolution_parts(std::size_t batch, std::size_t time);
void convolution_backward(const Convolution& problem, const ConvolutionGradients& gradients,
                          cudaStream_t stream);

// -- the scan, with Δ = softplus(..) before it and the gate SiLU(z) after it --------------------------------------------

inline constexpr int scan_chunk = 8;  // steps between the states that a backward pass begins anew from

struct ScanSizes {
  int inner, states, rank;

  /// Channels of x_proj's output: dt, B, C.
  MAC_HOST_DEVICE int projected() const { return rank + 2 * states; }
};

/// How the scan of some number of states is cut. A few lanes of a warp share a channel, each with a few of its states
/// in registers.
struct ScanShape {
  int padded_states, block_channels;
};
inline constexpr int most_states = 256;
ScanShape scan_shape(const ScanSizes& sizes);

/// Sequences are scanned in segments where they are few: each from zeros first, for what it does to a state; then one
/// after the other in these terms; then each from its true state.
struct ScanSegments {
  int count, time;  // of a sequence, and the steps of each but the last: whole tiles
};
ScanSegments scan_segments(const ScanSizes& sizes, std::size_t batch, std::size_t time);

struct Scan {
  ScanSizes sizes;
  int batch, time;
  ScanSegments segments;
  const float* v;                                                // (rows, inner)
  const float* z;                                                // (rows, inner), rows 2·inner apart
  const float* projected;                                        // (rows, rank + 2·states): dt, B, C
  const float *step_weight, *step_bias, *A_log, *omega_log, *D;  // omega_log: where states turn, or null
  BlockStates<const float> initial;                              // (states, inner)
  float* checkpoints;  // (sequence, chunk, inner, padded states): the states before each chunk, or null
  float* borders;  // (sequence, segment, inner, padded states): states between segments, if there are several
  float* step_sums;  // (sequence, segment, inner): Σ Δ of a segment, likewise
};

struct ScanGradients {
  const float* d_gated;  // (rows, inner)
  float* d_z;            // (rows, inner), rows 2·inner apart
  float* d_v;            // (rows, inner)
  float* d_step;         // (rows, inner): of dt_proj's output; may be d_gated
  float* d_BC;           // (block of channels, rows, 2·states): each block's sums
  float*
      parts;  // (sequence · segments, inner · (states + 2)): gradients of A_log and omega_log, D and dt_proj's bias
  BlockStates<const float> d_final;  // (states, inner)
  BlockStates<float> d_initial;
};

/// Of a kind, whose states they advance.
struct GeneralScan {
  /// gated = (scan + D v) · SiLU(z)
  void (*forward)(const Scan& problem, float* gated, BlockStates<float> final_state, cudaStream_t stream);
  void (*backward)(const Scan& problem, const ScanGradients& gradients, cudaStream_t stream);
};

/// to (rows, 2·states), rows `stride` apart = Σ over the blocks of channels of d_BC
void sum_BC(float* to, std::size_t stride, const float* d_BC, int blocks, std::size_t rows, int states,
            cudaStream_t stream);

}  // namespace mac::selective
