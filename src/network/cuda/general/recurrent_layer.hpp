// GRU and LSTM on the general path: the input's share of all gates is one product, the steps are the kernels of
// recurrence.hpp, and all gradients of weights are products again.
#pragma once

#include "network/cuda/general/layer.hpp"
#include "network/cuda/general/recurrence.hpp"

namespace mac::cuda {

template <class T>
std::unique_ptr<GeneralLayer<T>> make_recurrent_layer(const NetworkShape& shape,
                                                      const RecurrenceKernels<T>& kernels);

}  // namespace mac::cuda
