// What --precision tf32 costs: a wide network with products in TF32 and in float32, against float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mac/cuda.hpp>
#include <mac/error.hpp>

#include "network/cuda_engine.hpp"
#include "network/engine_table.hpp"

namespace mac::test {
namespace {

using cuda::ProductPrecision;

const EngineRow& row(const std::string& name) {
  for (const EngineRow& row : engine_table())
    if (row.name == name) return row;
  throw Error("no engine is called {}", name);
}

struct Errors {
  double y, d_x;
  TensorError worst;  // gradient of a tensor
};

/// Whatever happens, the tests after this one have products in float32.
struct ProductsIn {
  explicit ProductsIn(ProductPrecision precision) { cuda::set_product_precision(precision); }
  ProductsIn(const ProductsIn&) = delete;
  ProductsIn& operator=(const ProductsIn&) = delete;
  ~ProductsIn() { cuda::set_product_precision(ProductPrecision::float32); }
};

Errors errors_in(ProductPrecision precision, const Problem& problem, const Result& truth) {
  const ProductsIn products(precision);
  const Result result = row("cuda_general").forward_backward(problem);
  return {relative_error(result.y, truth.y), relative_error(result.d_x, truth.d_x),
          worst_tensor(problem.shape, result.d_parameters, truth.d_parameters)};
}

// docs/gpu.md has the figures, which this prints.
TEST(CudaProducts, InTf32AreOffByFactorsOfTenBits) {
  if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
  for (const NetworkShape& shape :
       {NetworkShape{LayerKind::mamba, 6, 6, 128, 4, 16}, NetworkShape{LayerKind::gru, 6, 6, 128, 4, 0}}) {
    const Problem problem = random_problem(shape, {2, 2001}, 5, false);
    const Result truth = row("cpu_double").forward_backward(problem);
    const Errors single = errors_in(ProductPrecision::float32, problem, truth),
                 tf32 = errors_in(ProductPrecision::tf32, problem, truth);
    for (const auto& [name, errors] : {std::pair("float32", single), std::pair("tf32", tf32)})
      fmt::print("{} {}: outputs {:.2g}, gradient of inputs {:.2g}, worst tensor {:.2g} ({})\n",
                 to_string(shape.kind), name, errors.y, errors.d_x, errors.worst.error, errors.worst.tensor);
    // A factor is off by up to 5e-4, and the errors of a sum's terms cancel in part.
    EXPECT_LT(tf32.y, 5e-3);
    EXPECT_LT(tf32.worst.error, 2e-2) << tf32.worst.tensor;
    // TF32 was on, and is off again.
    EXPECT_GT(tf32.y, 10 * single.y);
    EXPECT_LT(single.y, 1e-5);
  }
}

}  // namespace
}  // namespace mac::test
