#include "network/kinds/oscillator/cuda/general.hpp"
#include "network/kinds/oscillator/cuda/transition.cuh"
#include "network/selective/cuda/scan_forward.cuh"

namespace mac::oscillator {

template <class T>
void scan_forward(const Scan<T>& problem, T* gated, cuda::BlockStates<T> final_state, cudaStream_t stream) {
  selective::scan_forward<T, Turning>(problem, gated, final_state, stream);
}

#define MAC_SCALAR(T) template void scan_forward<T>(const Scan<T>&, T*, cuda::BlockStates<T>, cudaStream_t);
MAC_SCALAR(float)
MAC_SCALAR(double)
#undef MAC_SCALAR

}  // namespace mac::oscillator
