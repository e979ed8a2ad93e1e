#pragma once

#include "network/selective/cuda/general.hpp"

namespace mac::mamba {

template <class T>
void scan_forward(const selective::Scan<T>& problem, T* gated, cuda::BlockStates<T> final_state,
                  cudaStream_t stream);
template <class T>
void scan_backward(const selective::Scan<T>& problem, const selective::ScanGradients<T>& gradients,
                   cudaStream_t stream);
template <class T>
void scan_steps_forward(const selective::Scan<T>& problem, T* gated, cuda::BlockStates<T> states,
                        cudaStream_t stream);
template <class T>
void scan_steps_backward(const selective::Scan<T>& problem, const selective::ScanGradients<T>& gradients,
                         cudaStream_t stream);

}  // namespace mac::mamba
