#include "network/kinds/oscillator/cuda/general.hpp"
#include "network/kinds/oscillator/cuda/transition.cuh"
#include "network/selective/cuda/scan_backward.cuh"

namespace mac::oscillator {

template <class T>
void scan_backward(const Scan<T>& problem, const selective::ScanGradients<T>& gradients,
                   cudaStream_t stream) {
  selective::scan_backward<T, Turning>(problem, gradients, stream);
}

#define MAC_SCALAR(T) \
  template void scan_backward<T>(const Scan<T>&, const selective::ScanGradients<T>&, cudaStream_t);
MAC_SCALAR(float)
MAC_SCALAR(double)
#undef MAC_SCALAR

}  // namespace mac::oscillator
