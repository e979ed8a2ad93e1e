#include <mac/error.hpp>

#include "network/cuda/general/layer.hpp"

namespace mac::oscillator {

std::unique_ptr<cuda::GeneralLayer> make_general_layer(const NetworkShape&) {
  throw UsageError("a network of kind oscillator does not run on a CUDA device: use --device cpu");
}

}  // namespace mac::oscillator
