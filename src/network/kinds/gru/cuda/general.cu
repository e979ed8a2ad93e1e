// The gates of the GRU layer for the recurrence of any size (the equations are in reference.hpp).
#include "network/cuda/general/activations.cuh"
#include "network/cuda/general/recurrence.cuh"
#include "network/cuda/general/recurrence_steps.cuh"
#include "network/kinds/gru/cuda/general.hpp"

namespace mac::gru {

namespace {

using cuda::sigmoid;

template <class T>
struct Cell {
  using Scalar = T;

  // Kept: r, z, n, q. Gradients, before the functions: r, z, n, and of q.
  static constexpr cuda::RecurrenceCounts counts{.gates = 3, .kept = 4, .gradients = 4, .states = 1};

  static __device__ void forward(T (&h)[1], T (&kept)[4], const T (&from_input)[3],
                                 const T (&from_hidden)[3]) {
    const T r = sigmoid(from_input[0] + from_hidden[0]), z = sigmoid(from_input[1] + from_hidden[1]),
            q = from_hidden[2], n = tanh(fma(r, q, from_input[2]));
    h[0] = fma(z, h[0] - n, n);
    kept[0] = r, kept[1] = z, kept[2] = n, kept[3] = q;
  }

  static __device__ void backward(T (&d_h)[1], T (&gradients)[4], const T (&kept)[4], T before) {
    const T r = kept[0], z = kept[1], n = kept[2], q = kept[3];
    const T d_n = d_h[0] * (1 - z) * (1 - n * n);
    gradients[0] = d_n * q * r * (1 - r);
    gradients[1] = d_h[0] * (before - n) * z * (1 - z);
    gradients[2] = d_n;
    gradients[3] = d_n * r;
    d_h[0] *= z;
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

}  // namespace mac::gru
