#pragma once

#include "network/cuda/general/recurrence.hpp"

namespace mac::lstm {

cuda::RecurrenceKernels recurrence_kernels();

}  // namespace mac::lstm
