// The CUDA engine, where the build has it and the machine a device (mac/cuda.hpp).
#pragma once

#include <mac/network.hpp>
#include <memory>

namespace mac {

namespace cuda {

/// Which kernels compute a network: those that were measured to be fastest for its sizes; fused ones, a whole block of
/// the network in each; or those for any size, with cuBLAS between them.
enum class Kernels { fastest, fused, general };

/// How cuBLAS multiplies matrices of float32: in float32, or on tensor cores with factors rounded to TF32 (ten bits after
/// the binary point, an error of up to 5e-4 in a factor). The fused kernels keep float32's accuracy either way.
enum class ProductPrecision { float32, tf32 };

/// What the command line says, for all networks from here on.
void set_product_precision(ProductPrecision precision);

}  // namespace cuda

/// The network on the device, with arrays in host memory as in every engine; float or double, which takes the kernels
/// for any size. Throws Error if no device can be used or the network is too large for it.
template <class T>
std::unique_ptr<SequenceEngine<T>> make_cuda_engine(const NetworkShape& shape,
                                                    cuda::Kernels kernels = cuda::Kernels::fastest);

}  // namespace mac
