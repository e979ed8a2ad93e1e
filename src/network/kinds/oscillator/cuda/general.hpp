#pragma once

#include "network/selective/cuda/general.hpp"

namespace mac::oscillator {

void scan_forward(const selective::Scan& problem, float* gated, cuda::BlockStates<float> final_state,
                  cudaStream_t stream);
void scan_backward(const selective::Scan& problem, const selective::ScanGradients& gradients,
                   cudaStream_t stream);

}  // namespace mac::oscillator
