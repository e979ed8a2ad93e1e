#pragma once

#include "network/cuda/general/recurrence.hpp"

namespace mac::gru {

template <class T>
cuda::RecurrenceKernels<T> recurrence_kernels();

}  // namespace mac::gru
