// GRU and LSTM on the general path: the input's share of all gates is one product, the steps are the kernels of
// recurrence.hpp, and all gradients of weights are products again.
#pragma once

#include "network/cuda/general/layer.hpp"
#include "network/cuda/general/recurrence.hpp"

namespace mac::cuda {

std::unique_ptr<GeneralLayer> make_recurrent_layer(const NetworkShape& shape,
                                                   const RecurrenceKernels& kernels);

}  // namespace mac::cuda
