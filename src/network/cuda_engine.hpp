// The CUDA engine, where the build has it and the machine a device (mac/cuda.hpp).
#pragma once

#include <mac/network.hpp>
#include <memory>

namespace mac {

/// The network on the device in float32, with arrays in host memory as in every engine. Throws Error if no
/// device can be used or the network is too large for it.
std::unique_ptr<SequenceEngine<float>> make_cuda_engine(const NetworkShape& shape);

}  // namespace mac
