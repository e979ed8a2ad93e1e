#include "network/kinds/oscillator/cuda/general.hpp"

#include "network/kinds/oscillator/layer.hpp"
#include "network/selective/cuda/general_layer.hpp"

namespace mac::oscillator {

std::unique_ptr<cuda::GeneralLayer> make_general_layer(const NetworkShape& shape) {
  return selective::make_general_layer(shape, Sizes(shape), {&scan_forward, &scan_backward},
                                       2);  // A_log, omega_log
}

}  // namespace mac::oscillator
