// Whether the build has the CUDA engine and the machine a device for it.
#pragma once

#include <string>

namespace mac {

/// True if the program was built with the CUDA engine.
bool cuda_compiled();

/// Empty if a device can be used; otherwise a sentence that says why not.
std::string cuda_unavailable();

/// For `mac --version`: the CUDA version the engine was built with and the device, or that there is none.
std::string cuda_description();

}  // namespace mac
