#include <mac/cuda.hpp>
#include <mac/error.hpp>

#include "network/cuda_engine.hpp"

namespace mac {

void cuda::set_product_precision(ProductPrecision) {}

std::unique_ptr<SequenceEngine<float>> make_cuda_engine(const NetworkShape&, cuda::Kernels) {
  throw Error(cuda_unavailable());
}

}  // namespace mac
