// The CUDA engine, where the build has it and the machine a device.
#pragma once

#include <mac/network.hpp>
#include <memory>
#include <string>

namespace mac {

/// True if the program was built with the CUDA engine.
bool cuda_compiled();

/// Empty if a device can be used; otherwise a sentence that says why not.
std::string cuda_unavailable();

/// For `mac --version`: the CUDA version the engine was built with and the device, or that there is none.
std::string cuda_description();

/// The network on the device in float32, with arrays in host memory as in every engine. Throws Error if no
/// device can be used or the network is too large for it.
std::unique_ptr<SequenceEngine<float>> make_cuda_engine(const NetworkShape& shape);

}  // namespace mac
