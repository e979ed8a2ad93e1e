#pragma once

#include "network/cuda/general/recurrence.hpp"

namespace mac::lstm {

template <class T>
cuda::RecurrenceKernels<T> recurrence_kernels();

}  // namespace mac::lstm
