// What the general path of a selective layer runs between its products: the convolution and the selective scan (the
// equations are in reference.hpp), in float or double. Matrices are (rows, channels), a row a time step of a sequence.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <mac/host_device.hpp>

#include "network/cuda/general/block_states.hpp"

namespace mac::selective {

using cuda::BlockStates;

// -- convolution and SiLU ---------------------------------------------------------------------------------------------

template <class T>
struct Convolution {
  int batch, time, inner;
  const T* x;  // (rows, inner), rows 2·inner apart
  const T *weight, *bias;
  BlockStates<const T> initial;  // (3, inner): the inputs before the sequence
};

/// v = SiLU(c); the last three inputs go to the final states.
template <class T>
void convolution_forward(const Convolution<T>& problem, T* v, BlockStates<T> final_state,
                         cudaStream_t stream);

template <class T>
struct ConvolutionGradients {
  const T* d_v;                  // (rows, inner)
  T* d_x;                        // (rows, inner), rows 2·inner apart
  BlockStates<const T> d_final;  // (3, inner)
  BlockStates<T> d_initial;
  T* parts;  // (parts, 5·inner): gradients of weight (inner, 4), then of the bias (inner)
};
/// Parts of convolution_backward; step by step there are step_parts.
std::size_t convolution_parts(std::size_t batch, std::size_t time);
template <class T>
void convolution_backward(const Convolution<T>& problem, const ConvolutionGradients<T>& gradients,
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
template <class T>
ScanShape scan_shape(const ScanSizes& sizes);

/// Sequences are scanned in segments where they are few: each from zeros first, for what it does to a state; then one
/// after the other in these terms; then each from its true state.
struct ScanSegments {
  int count, time;  // of a sequence, and the steps of each but the last: whole tiles
};
template <class T>
ScanSegments scan_segments(const ScanSizes& sizes, std::size_t batch, std::size_t time);

template <class T>
struct Scan {
  ScanSizes sizes;
  int batch, time;
  ScanSegments segments;
  const T* v;                                                // (rows, inner)
  const T* z;                                                // (rows, inner), rows 2·inner apart
  const T* projected;                                        // (rows, rank + 2·states): dt, B, C
  const T *step_weight, *step_bias, *A_log, *omega_log, *D;  // omega_log: where states turn, or null
  BlockStates<const T> initial;                              // (states, inner)
  BlockStates<const T> after;                                // those after every step, for steps_backward
  T* checkpoints;  // (sequence, chunk, inner, padded states): the states before each chunk, or null
  T* borders;      // (sequence, segment, inner, padded states): states between segments, if there are several
  T* step_sums;    // (sequence, segment, inner): Σ Δ of a segment, likewise
};

template <class T>
struct ScanGradients {
  const T* d_gated;  // (rows, inner)
  T* d_z;            // (rows, inner), rows 2·inner apart
  T* d_v;            // (rows, inner)
  T* d_step;         // (rows, inner): of dt_proj's output; may be d_gated
  T* d_BC;           // (block of channels, rows, 2·states): each block's sums
  /// (sequence · segments, or step_parts, inner · (states + 2)): gradients of A_log and omega_log, D and dt_proj's bias
  T* parts;
  BlockStates<const T> d_final;  // (states, inner)
  BlockStates<T> d_initial;
};

/// Of a kind, whose states they advance.
template <class T>
struct GeneralScan {
  using Forward = void (*)(const Scan<T>& problem, T* gated, BlockStates<T> states, cudaStream_t stream);
  using Backward = void (*)(const Scan<T>& problem, const ScanGradients<T>& gradients, cudaStream_t stream);

  Forward forward;  // gated = (scan + D v) · SiLU(z)
  Backward backward;
  Forward steps_forward;  // the same step by step
  Backward steps_backward;
};

/// to (rows, 2·states), rows `stride` apart = Σ over the blocks of channels of d_BC
template <class T>
void sum_BC(T* to, std::size_t stride, const T* d_BC, int blocks, std::size_t rows, int states,
            cudaStream_t stream);

// -- the same step by step, where the states after every step are in memory (scan_steps.cuh) -----------------------------

/// Channels of a block, at most: a thread for each.
inline constexpr int most_step_channels = 128;
/// Parts of the gradients of weights, channels of a block, and blocks of channels of d_BC.
std::size_t step_parts(std::size_t batch);
template <class T>
int step_block_channels(const ScanSizes& sizes);
template <class T>
int step_channel_blocks(const ScanSizes& sizes);

/// states: those after the last step, or after every one.
template <class T>
void convolution_steps_forward(const Convolution<T>& problem, T* v, BlockStates<T> states,
                               cudaStream_t stream);
template <class T>
void convolution_steps_backward(const Convolution<T>& problem, const ConvolutionGradients<T>& gradients,
                                cudaStream_t stream);

}  // namespace mac::selective
