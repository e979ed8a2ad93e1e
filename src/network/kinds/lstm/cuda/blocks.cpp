// There are no fused kernels for this kind: networks take the general path.
#include "network/cuda/device_blocks.hpp"

namespace mac::lstm {

std::unique_ptr<cuda::DeviceBlocks> make_device_blocks(const NetworkShape&, std::size_t) { return nullptr; }

}  // namespace mac::lstm
