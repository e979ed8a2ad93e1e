#include "network/kinds/mamba/cuda/general.hpp"

#include "network/kinds/mamba/layer.hpp"
#include "network/selective/cuda/general_layer.hpp"

namespace mac::mamba {

std::unique_ptr<cuda::GeneralLayer> make_general_layer(const NetworkShape& shape) {
  return selective::make_general_layer(shape, Sizes(shape), {&scan_forward, &scan_backward}, 1);  // A_log
}

}  // namespace mac::mamba
