// What a build without CUDA says about it; so do the files of this name in other rooms.
#include <mac/cuda.hpp>

namespace mac {

bool cuda_compiled() { return false; }

std::string cuda_unavailable() {
  return "this build of mac has no CUDA engine (configure with -DMAC_CUDA=ON)";
}

std::string cuda_description() { return "no CUDA"; }

}  // namespace mac
