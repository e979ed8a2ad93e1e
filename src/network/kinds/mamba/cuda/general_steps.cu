#include "network/kinds/mamba/cuda/general.hpp"
#include "network/kinds/mamba/cuda/transition.cuh"
#include "network/selective/cuda/scan_steps.cuh"

namespace mac::mamba {

template <class T>
void scan_steps_forward(const Scan<T>& problem, T* gated, cuda::BlockStates<T> states, cudaStream_t stream) {
  selective::scan_steps_forward<T, Decaying>(problem, gated, states, stream);
}

template <class T>
void scan_steps_backward(const Scan<T>& problem, const selective::ScanGradients<T>& gradients,
                         cudaStream_t stream) {
  selective::scan_steps_backward<T, Decaying>(problem, gradients, stream);
}

#define MAC_SCALAR(T)                                                                          \
  template void scan_steps_forward<T>(const Scan<T>&, T*, cuda::BlockStates<T>, cudaStream_t); \
  template void scan_steps_backward<T>(const Scan<T>&, const selective::ScanGradients<T>&, cudaStream_t);
MAC_SCALAR(float)
MAC_SCALAR(double)
#undef MAC_SCALAR

}  // namespace mac::mamba
