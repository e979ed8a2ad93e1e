// A selective layer of the general path, as its kind asks for it.
#pragma once

#include "network/cuda/general/layer.hpp"
#include "network/selective/cuda/general.hpp"
#include "network/selective/layer.hpp"

namespace mac::selective {

/// The layer; `rate_tensors` is the number of its tensors between dt_proj and D. Throws Error, in the words of `kind`, if
/// there is no room for its states.
template <class T>
std::unique_ptr<cuda::GeneralLayer<T>> make_general_layer(const NetworkShape& shape, const Sizes& sizes,
                                                          const GeneralScan<T>& kernels,
                                                          std::size_t rate_tensors);

}  // namespace mac::selective
