// What a build without CUDA says about it.
#include <mac/cuda.hpp>
#include <mac/error.hpp>

namespace mac {

bool cuda_compiled() { return false; }

std::string cuda_unavailable() {
  return "this build of mac has no CUDA engine (configure with -DMAC_CUDA=ON)";
}

std::string cuda_description() { return "no CUDA"; }

std::unique_ptr<SequenceEngine<float>> make_cuda_engine(const NetworkShape&) {
  throw Error(cuda_unavailable());
}

}  // namespace mac
