#pragma once

#include "network/cuda/general/recurrence.hpp"

namespace mac::gru {

cuda::RecurrenceKernels recurrence_kernels();

}  // namespace mac::gru
