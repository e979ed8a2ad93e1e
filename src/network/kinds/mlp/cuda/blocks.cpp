// There are no kernels for this kind.
#include "network/cuda/device_blocks.hpp"

namespace mac::mlp {

std::unique_ptr<cuda::DeviceBlocks> make_device_blocks(const NetworkShape& shape, std::size_t) {
  cuda::refuse_device(shape.kind);
}

}  // namespace mac::mlp
