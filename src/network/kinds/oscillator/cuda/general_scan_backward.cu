#include "network/kinds/oscillator/cuda/general.hpp"
#include "network/kinds/oscillator/cuda/transition.cuh"
#include "network/selective/cuda/scan_backward.cuh"

namespace mac::oscillator {

void scan_backward(const Scan& problem, const selective::ScanGradients& gradients, cudaStream_t stream) {
  selective::scan_backward<Turning>(problem, gradients, stream);
}

}  // namespace mac::oscillator
