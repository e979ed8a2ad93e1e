#include "network/kinds/mamba/cuda/general.hpp"
#include "network/kinds/mamba/cuda/transition.cuh"
#include "network/selective/cuda/scan_forward.cuh"

namespace mac::mamba {

void scan_forward(const Scan& problem, float* gated, cuda::BlockStates<float> final_state,
                  cudaStream_t stream) {
  selective::scan_forward<Decaying>(problem, gated, final_state, stream);
}

}  // namespace mac::mamba
