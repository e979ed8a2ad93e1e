#include <mac/cuda.hpp>
#include <mac/cuda_engine.hpp>
#include <mac/error.hpp>

namespace mac {

std::unique_ptr<SequenceEngine<float>> make_cuda_engine(const NetworkShape&) {
  throw Error(cuda_unavailable());
}

}  // namespace mac
