#include <mac/cuda.hpp>
#include <mac/error.hpp>

#include "network/cuda_engine.hpp"

namespace mac {

void cuda::set_product_precision(ProductPrecision) {}

template <class T>
std::unique_ptr<SequenceEngine<T>> make_cuda_engine(const NetworkShape&, cuda::Kernels) {
  throw Error(cuda_unavailable());
}

template std::unique_ptr<SequenceEngine<float>> make_cuda_engine(const NetworkShape&, cuda::Kernels);
template std::unique_ptr<SequenceEngine<double>> make_cuda_engine(const NetworkShape&, cuda::Kernels);

}  // namespace mac
