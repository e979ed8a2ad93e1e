// There are no fused kernels for this kind: networks take the general path.
#include "network/cuda/device_blocks.hpp"

namespace mac::oscillator {

std::unique_ptr<cuda::DeviceBlocks> make_device_blocks(const NetworkShape&, std::size_t) { return nullptr; }

}  // namespace mac::oscillator
