#include "network/kinds/mamba/cuda/general.hpp"
#include "network/kinds/mamba/cuda/transition.cuh"
#include "network/selective/cuda/scan_backward.cuh"

namespace mac::mamba {

template <class T>
void scan_backward(const Scan<T>& problem, const selective::ScanGradients<T>& gradients,
                   cudaStream_t stream) {
  selective::scan_backward<T, Decaying>(problem, gradients, stream);
}

#define MAC_SCALAR(T) \
  template void scan_backward<T>(const Scan<T>&, const selective::ScanGradients<T>&, cudaStream_t);
MAC_SCALAR(float)
MAC_SCALAR(double)
#undef MAC_SCALAR

}  // namespace mac::mamba
