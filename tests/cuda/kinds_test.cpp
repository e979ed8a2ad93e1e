// Kinds of layer without kernels for single steps, and sizes beyond all kernels, are refused with what to do instead.
#include <gtest/gtest.h>

#include <mac/error.hpp>
#include <mac/paper_networks.hpp>

#include "network/cuda/general/general_network.hpp"
#include "network/cuda/packed_network.hpp"

namespace mac::cuda {
namespace {

template <class E, class Use>
void expect_refused(const std::string& message, Use use) {
  try {
    use();
    FAIL() << "not refused: " << message;
  } catch (const E& error) {
    EXPECT_EQ(std::string(error.what()), message);
  }
}

TEST(Kinds, WithoutKernelsForStepsAreRefusedWithARemedy) {
  for (const LayerKind kind : {LayerKind::mlp, LayerKind::lstm, LayerKind::oscillator})
    expect_refused<UsageError>("a network of kind " + std::string(to_string(kind)) +
                                   " does not roll out on a CUDA device: use --device cpu",
                               [&] { packed_sizes(paper_network("burgers", kind)); });
}

TEST(GeneralLayers, RefuseSizesBeyondTheirKernelsWithARemedy) {
  const auto refused = [](const NetworkShape& shape, const std::string& message) {
    expect_refused<Error>(message, [&] { make_general_layer<float>(shape); });
  };
  refused(
      {LayerKind::mamba, 3, 2, 16, 1, 257},
      "a network of kind mamba with d_state 257 does not fit a CUDA device (at most 256): use --device cpu");
  refused({LayerKind::oscillator, 3, 2, 16, 1, 129},
          "a network of kind oscillator with d_state 129 does not fit a CUDA device (at most 128): use "
          "--device cpu");
  refused({LayerKind::mamba, 3, 2, 2049, 1, 16},
          "a network with d_model 2049 does not fit a CUDA device (at most 2048): use --device cpu");
}

TEST(Cublas, IsAskedForWhereItIsMissing) {
  expect_refused<Error>(
      "a network of this size needs cuBLAS on a CUDA device, and libnone.so was not found: install "
      "cuBLAS of CUDA " +
          std::to_string(CUDART_VERSION / 1000) + ", or use --device cpu",
      [] {
        open_cublas({"libnone.so", "/nowhere/libcublas.so"});
      });
}

}  // namespace
}  // namespace mac::cuda
