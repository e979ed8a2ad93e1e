#include "network/cuda/device_blocks.hpp"

namespace mac::cuda {

void refuse_device(LayerKind kind) {
  throw UsageError("a network of kind {} does not run on a CUDA device: use --device cpu", to_string(kind));
}

void refuse_ensemble() { throw UsageError("an ensemble does not run on a CUDA device: use --device cpu"); }

}  // namespace mac::cuda
