#include "network/kinds/oscillator/cuda/general.hpp"
#include "network/kinds/oscillator/cuda/transition.cuh"
#include "network/selective/cuda/scan_forward.cuh"

namespace mac::oscillator {

void scan_forward(const Scan& problem, float* gated, cuda::BlockStates<float> final_state,
                  cudaStream_t stream) {
  selective::scan_forward<Turning>(problem, gated, final_state, stream);
}

}  // namespace mac::oscillator
