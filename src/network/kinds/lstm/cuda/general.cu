// The gates of the LSTM layer for the recurrence of any size (the equations are in reference.hpp).
#include "network/cuda/general/recurrence.cuh"
#include "network/cuda/general/recurrence_steps.cuh"
#include "network/cuda/time_columns.cuh"
#include "network/kinds/lstm/cuda/general.hpp"

namespace mac::lstm {

namespace {

using cuda::sigmoid;

struct Cell {
  // Kept: i, f, g, o, c before the step, tanh c' after it. Gradients, before the functions: i, f, g, o.
  static constexpr cuda::RecurrenceCounts counts{.gates = 4, .kept = 6, .gradients = 4, .states = 2};

  /// state: h, c
  static __device__ void forward(float (&state)[2], float (&kept)[6], const float (&from_input)[4],
                                 const float (&from_hidden)[4]) {
    const auto sum = [&](int gate) { return from_input[gate] + from_hidden[gate]; };
    const float i = sigmoid(sum(0)), f = sigmoid(sum(1)), g = tanhf(sum(2)), o = sigmoid(sum(3));
    kept[0] = i, kept[1] = f, kept[2] = g, kept[3] = o, kept[4] = state[1];
    state[1] = fmaf(f, state[1], i * g);
    kept[5] = tanhf(state[1]);
    state[0] = o * kept[5];
  }

  static __device__ void backward(float (&d_state)[2], float (&gradients)[4], const float (&kept)[6], float) {
    const float i = kept[0], f = kept[1], g = kept[2], o = kept[3], before = kept[4], q = kept[5];
    const float d_c = fmaf(d_state[0] * o, 1 - q * q, d_state[1]);
    gradients[0] = d_c * g * i * (1 - i);
    gradients[1] = d_c * before * f * (1 - f);
    gradients[2] = d_c * i * (1 - g * g);
    gradients[3] = d_state[0] * q * o * (1 - o);
    d_state[0] = 0;
    d_state[1] = d_c * f;
  }
};

}  // namespace

cuda::RecurrenceKernels recurrence_kernels() {
  return {Cell::counts, cuda::recurrence_forward<Cell>, cuda::recurrence_backward<Cell>,
          cuda::step_forward<Cell>, cuda::step_backward<Cell>};
}

}  // namespace mac::lstm
