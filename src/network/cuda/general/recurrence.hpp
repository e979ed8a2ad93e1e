// Layers with a recurrent matrix W, GRU and LSTM, of many sizes. The input's share of all gates is one product over all
// steps; what is left step by step is W h and the gates. A block, or a cluster of blocks that share the units out, keeps W
// in registers and goes through all steps of a few sequences. Blocks of a cluster write what they compute into each
// other's shared memory. Where W does not fit a cluster, or there is but one step, a step is a product of cuBLAS and a kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "network/cuda/general/block_states.hpp"

namespace mac::cuda {

/// Numbers of a kind: gates; what a unit keeps of a step for the way back; the gradients of a step that products read
/// (those of the gates before their functions with respect to the input's share come first; that of the last gate's
/// recurrent share comes last); states of a unit.
struct RecurrenceCounts {
  int gates, kept, gradients, states;
};

/// Matrices are (rows, channels), a row a step of a sequence; the numbers of a state lie as d, d, ..
template <class T>
struct Recurrence {
  int batch, time, d;
  const T *weight, *bias;  // (gates·d, d), (gates·d): W
  const T* from_input;     // (rows, gates·d), to which the input's bias has yet to be added
  const T* input_bias;     // (gates·d)
  BlockStates<const T> initial;
  BlockStates<T> final;  // or after every step
  T* out;                // (rows, d): the hidden states
  T* before;             // (rows, d): those before each step
  T* kept;               // (rows, kept·d)
};

template <class T>
struct RecurrenceBackward {
  int batch, time, d;
  const T* weight;
  const T *before, *kept;
  const T* d_out;                // (rows, d)
  BlockStates<const T> d_final;  // or of the states after every step
  BlockStates<T> d_initial;
  T* d_gates;  // (rows, gradients·d)
};

/// How W is kept in registers: by a cluster of so many blocks, each with so many units. No blocks: it does not fit.
struct ResidentPlan {
  int blocks = 0, units = 0;
};
/// Of a thread: as many registers either way, ..
template <class T>
inline constexpr int resident_weights = 256 / sizeof(T);
/// .. and of a block, at most: arithmetic in double takes more of the other registers.
template <class T>
inline constexpr int resident_threads = sizeof(T) > sizeof(float) ? 512 : 768;
inline constexpr int largest_cluster = 8;

template <class T>
constexpr ResidentPlan plan_resident(int gates, int d, bool clusters) {
  const int parts = (d + resident_weights<T> - 1) / resident_weights<T>,
            parts_back = (gates * d + resident_weights<T> - 1) / resident_weights<T>;
  for (int blocks = 1; blocks <= (clusters ? largest_cluster : 1); blocks *= 2) {
    const int units = (d + blocks - 1) / blocks;
    if ((blocks - 1) * units < d && gates * units * parts <= resident_threads<T> &&
        units * parts_back <= resident_threads<T>)
      return {blocks, units};
  }
  return {};
}

/// What goes from a step to the next where each is launched by itself.
template <class T>
struct RecurrenceStep {
  T* product;  // (sequence, gates·d): W h; on the way back the gradients of it
  T* state;    // (sequence, states·d), or their gradients
};

/// A kind's kernels, of all steps at once where there is a plan, and of step t.
template <class T>
struct RecurrenceKernels {
  RecurrenceCounts counts;
  void (*forward)(const Recurrence<T>& problem, cudaStream_t stream);
  void (*backward)(const RecurrenceBackward<T>& problem, cudaStream_t stream);
  void (*step_forward)(const Recurrence<T>& problem, int t, const RecurrenceStep<T>& step,
                       cudaStream_t stream);
  void (*step_backward)(const RecurrenceBackward<T>& problem, int t, const RecurrenceStep<T>& step,
                        cudaStream_t stream);
};

}  // namespace mac::cuda
