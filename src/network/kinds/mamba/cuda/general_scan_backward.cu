#include "network/kinds/mamba/cuda/general.hpp"
#include "network/kinds/mamba/cuda/transition.cuh"
#include "network/selective/cuda/scan_backward.cuh"

namespace mac::mamba {

void scan_backward(const Scan& problem, const selective::ScanGradients& gradients, cudaStream_t stream) {
  selective::scan_backward<Decaying>(problem, gradients, stream);
}

}  // namespace mac::mamba
