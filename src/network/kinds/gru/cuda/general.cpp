#include "network/kinds/gru/cuda/general.hpp"

#include "network/cuda/general/recurrent_layer.hpp"

namespace mac::gru {

std::unique_ptr<cuda::GeneralLayer> make_general_layer(const NetworkShape& shape) {
  return cuda::make_recurrent_layer(shape, recurrence_kernels());
}

}  // namespace mac::gru
