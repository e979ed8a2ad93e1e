// Kinds of layer that have no kernels are refused on the device, with what to do instead.
#include <gtest/gtest.h>

#include <mac/cuda.hpp>
#include <mac/error.hpp>
#include <mac/paper_networks.hpp>

#include "network/cuda/packed_network.hpp"
#include "network/cuda_engine.hpp"

namespace mac::cuda {
namespace {

template <class Use>
void expect_refused(LayerKind kind, Use use) {
  try {
    use(paper_network("burgers", kind));
    FAIL() << to_string(kind) << " was taken";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()), "a network of kind " + std::string(to_string(kind)) +
                                             " does not run on a CUDA device: use --device cpu");
  }
}

TEST(CudaKinds, WithoutKernelsAreRefusedWithARemedy) {
  if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
  for (const LayerKind kind : {LayerKind::mlp, LayerKind::lstm}) {
    expect_refused(kind, [](const NetworkShape& shape) { make_cuda_engine(shape); });
    expect_refused(kind, [](const NetworkShape& shape) { packed_sizes(shape); });
  }
}

}  // namespace
}  // namespace mac::cuda
