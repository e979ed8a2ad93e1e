// The steps of recurrence.hpp where each is launched by itself: where W does not fit a cluster, and of single steps of many
// sequences. They are what a unit does between two products of cuBLAS. A thread has a unit of a sequence.
#pragma once

#include "network/cuda/general/recurrence.hpp"

namespace mac::cuda {

inline constexpr int step_threads = 128;

/// f(sequence, unit) for the thread's.
template <class F>
__device__ void for_unit_of_step(int batch, int d, F f) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * step_threads + threadIdx.x;
  if (i < static_cast<std::size_t>(batch) * d) f(i / d, static_cast<int>(i % d));
}
inline unsigned blocks_of_step(int batch, int d) {
  return static_cast<unsigned>(
      (static_cast<std::size_t>(batch) * static_cast<std::size_t>(d) + step_threads - 1) / step_threads);
}

template <class Cell>
__global__ void __launch_bounds__(step_threads)
    step_forward_kernel(Recurrence<typename Cell::Scalar> p, int t,
                        RecurrenceStep<typename Cell::Scalar> step) {
  using T = typename Cell::Scalar;
  constexpr int gates = Cell::counts.gates, states = Cell::counts.states, n_kept = Cell::counts.kept;
  for_unit_of_step(p.batch, p.d, [&](std::size_t sequence, int unit) {
    const std::size_t at = sequence * p.time + t;
    T state[states], kept[n_kept], from_input[gates], from_hidden[gates];
    for (int j = 0; j < states; ++j) state[j] = step.state[(sequence * states + j) * p.d + unit];
    for (int g = 0; g < gates; ++g) {
      from_input[g] = p.from_input[(at * gates + g) * p.d + unit] + p.input_bias[g * p.d + unit];
      from_hidden[g] = step.product[(sequence * gates + g) * p.d + unit] + p.bias[g * p.d + unit];
    }
    p.before[at * p.d + unit] = state[0];
    Cell::forward(state, kept, from_input, from_hidden);
    p.out[at * p.d + unit] = state[0];
    for (int j = 0; j < n_kept; ++j) p.kept[(at * n_kept + j) * p.d + unit] = kept[j];
    for (int j = 0; j < states; ++j) {
      step.state[(sequence * states + j) * p.d + unit] = state[j];
      if (T* const after = p.final.after(sequence, t, p.time)) after[j * p.d + unit] = state[j];
    }
  });
}

template <class Cell>
__global__ void __launch_bounds__(step_threads)
    step_backward_kernel(RecurrenceBackward<typename Cell::Scalar> p, int t,
                         RecurrenceStep<typename Cell::Scalar> step) {
  using T = typename Cell::Scalar;
  constexpr int gates = Cell::counts.gates, states = Cell::counts.states, n_kept = Cell::counts.kept,
                n_gradients = Cell::counts.gradients;
  for_unit_of_step(p.batch, p.d, [&](std::size_t sequence, int unit) {
    const std::size_t at = sequence * p.time + t;
    T d_state[states], kept[n_kept], gradients[n_gradients];
    for (int j = 0; j < states; ++j) d_state[j] = step.state[(sequence * states + j) * p.d + unit];
    for (int j = 0; j < n_kept; ++j) kept[j] = p.kept[(at * n_kept + j) * p.d + unit];
    if (const T* const d_after = p.d_final.after(sequence, t, p.time))
      for (int j = 0; j < states; ++j) d_state[j] += d_after[j * p.d + unit];
    d_state[0] += p.d_out[at * p.d + unit];
    Cell::backward(d_state, gradients, kept, p.before[at * p.d + unit]);
    for (int j = 0; j < n_gradients; ++j) p.d_gates[(at * n_gradients + j) * p.d + unit] = gradients[j];
    for (int g = 0; g < gates; ++g)
      step.product[(sequence * gates + g) * p.d + unit] = gradients[g + 1 < gates ? g : n_gradients - 1];
    for (int j = 0; j < states; ++j) step.state[(sequence * states + j) * p.d + unit] = d_state[j];
  });
}

template <class Cell>
void step_forward(const Recurrence<typename Cell::Scalar>& problem, int t,
                  const RecurrenceStep<typename Cell::Scalar>& step, cudaStream_t stream) {
  step_forward_kernel<Cell>
      <<<blocks_of_step(problem.batch, problem.d), step_threads, 0, stream>>>(problem, t, step);
}
template <class Cell>
void step_backward(const RecurrenceBackward<typename Cell::Scalar>& problem, int t,
                   const RecurrenceStep<typename Cell::Scalar>& step, cudaStream_t stream) {
  step_backward_kernel<Cell>
      <<<blocks_of_step(problem.batch, problem.d), step_threads, 0, stream>>>(problem, t, step);
}

}  // namespace mac::cuda
