// The gates of the LSTM layer for the recurrence of any size (the equations are in reference.hpp).
#include "network/cuda/general/activations.cuh"
#include "network/cuda/general/recurrence.cuh"
#include "network/cuda/general/recurrence_steps.cuh"
#include "network/kinds/lstm/cuda/general.hpp"

namespace mac::lstm {

namespace {

using cuda::sigmoid;

template <class T>
struct Cell {
  using Scalar = T;

  // Kept: i, f, g, o, c before the step, tanh c' after it. Gradients, before the functions: i, f, g, o.
  static constexpr cuda::RecurrenceCounts counts{.gates = 4, .kept = 6, .gradients = 4, .states = 2};

  /// state: h, c
  static __device__ void forward(T (&state)[2], T (&kept)[6], const T (&from_input)[4],
                                 const T (&from_hidden)[4]) {
    const auto sum = [&](int gate) { return from_input[gate] + from_hidden[gate]; };
    const T i = sigmoid(sum(0)), f = sigmoid(sum(1)), g = tanh(sum(2)), o = sigmoid(sum(3));
    kept[0] = i, kept[1] = f, kept[2] = g, kept[3] = o, kept[4] = state[1];
    state[1] = fma(f, state[1], i * g);
    kept[5] = tanh(state[1]);
    state[0] = o * kept[5];
  }

  static __device__ void backward(T (&d_state)[2], T (&gradients)[4], const T (&kept)[6], T) {
    const T i = kept[0], f = kept[1], g = kept[2], o = kept[3], before = kept[4], q = kept[5];
    const T d_c = fma(d_state[0] * o, 1 - q * q, d_state[1]);
    gradients[0] = d_c * g * i * (1 - i);
    gradients[1] = d_c * before * f * (1 - f);
    gradients[2] = d_c * i * (1 - g * g);
    gradients[3] = d_state[0] * q * o * (1 - o);
    d_state[0] = 0;
    d_state[1] = d_c * f;
  }
};

}  // namespace

template <class T>
cuda::RecurrenceKernels<T> recurrence_kernels() {
  return {Cell<T>::counts, cuda::recurrence_forward<Cell<T>>, cuda::recurrence_backward<Cell<T>>,
          cuda::step_forward<Cell<T>>, cuda::step_backward<Cell<T>>};
}

template cuda::RecurrenceKernels<float> recurrence_kernels();
template cuda::RecurrenceKernels<double> recurrence_kernels();

}  // namespace mac::lstm
