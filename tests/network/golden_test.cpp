// The networks against what PyTorch and mamba-ssm computed (tests/data/SYSTEM_KIND.safetensors): outputs,
// loss and gradients in float64, and for Mamba the official CUDA kernels in float32.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <mac/paper_networks.hpp>
#include <mac/safetensors.hpp>
#include <tuple>

#include "network/engine_table.hpp"

namespace mac::test {
namespace {

struct Fixture {
  Safetensors file;
  Problem problem;
  std::vector<double> target;

  explicit Fixture(const std::string& name)
      : file(Safetensors::read(std::string(MAC_TEST_DATA) + "/" + name + ".safetensors")) {
    const auto size = [&](const char* key) { return std::stoul(file.metadata().at(key)); };
    problem.shape = {layer_kind_from(file.metadata().at("kind")),
                     size("d_in"),
                     size("d_out"),
                     size("d_model"),
                     size("n_blocks"),
                     size("d_state")};
    problem.parameters = parameters("weights.");
    problem.dims = {file.at("x").shape[0], file.at("x").shape[1]};
    problem.x = file.numbers("x");
    target = file.numbers("target");
  }

  std::vector<double> parameters(const std::string& prefix) const {
    const ParameterLayout layout(problem.shape);
    std::vector<double> flat;
    for (const TensorSpec& tensor : layout.tensors()) {
      const auto values = file.numbers(prefix + tensor.name);
      flat.insert(flat.end(), values.begin(), values.end());
    }
    return flat;
  }

  /// The mean squared error of y; its gradient goes into the problem.
  double loss(const std::vector<double>& y) {
    double sum = 0;
    problem.d_y.clear();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double error = y[i] - target[i];
      sum += error * error;
      problem.d_y.push_back(2 * error / static_cast<double>(y.size()));
    }
    return sum / static_cast<double>(y.size());
  }
};

class Golden : public testing::TestWithParam<std::tuple<EngineRow, std::string>> {
 protected:
  const EngineRow& row() const { return std::get<0>(GetParam()); }
  void SetUp() override {
    if (!row().unavailable.empty()) GTEST_SKIP() << row().unavailable;
  }
  Fixture fixture{std::get<1>(GetParam())};
};

TEST_P(Golden, OutputsLossAndGradientsAreThoseOfPyTorch) {
  const double loss = fixture.loss(row().forward(fixture.problem).y);
  const Result result = row().forward_backward(fixture.problem);
  EXPECT_LT(relative_error(result.y, fixture.file.numbers("out")), row().output_tolerance);
  EXPECT_NEAR(loss, fixture.file.numbers("loss")[0], row().output_tolerance * loss);
  EXPECT_LT(relative_error(result.d_x, fixture.file.numbers("grad_x")), row().gradient_tolerance);
  const auto worst = worst_tensor(fixture.problem.shape, result.d_parameters, fixture.parameters("grads."));
  EXPECT_LT(worst.error, row().gradient_tolerance) << worst.tensor;
}

/// The Mamba fixtures, which hold what the official kernels gave.
class Official : public Golden {};

TEST_P(Official, SequencesAgreeWithTheKernels) {
  fixture.loss(row().forward(fixture.problem).y);
  const Result result = row().forward_backward(fixture.problem);
  // The kernels' own rounding is 3e-7 on outputs and 1e-6 on gradients, on top of the float rows' rounding.
  EXPECT_LT(relative_error(result.y, fixture.file.numbers("out_official_fp32")), 2e-6);
  EXPECT_LT(relative_error(result.d_x, fixture.file.numbers("grad_x_official_fp32")), 1e-5);
}

TEST_P(Official, StepsAgreeWithTheRecurrentStep) {
  const std::vector<double> y = run_in_pieces(row(), fixture.problem, 1).y;
  EXPECT_LT(relative_error(y, fixture.file.numbers("out_official_step_fp32")), 2e-6);
}

/// Some kinds have files for all systems, others for a few.
std::vector<std::string> fixtures(const std::vector<std::string>& kinds) {
  std::vector<std::string> names;
  for (const std::string system : {"tiny", "burgers", "kdv", "lorenz96", "power_grid"})
    for (const std::string& kind : kinds)
      if (const std::string name = system + "_" + kind;
          std::filesystem::exists(fmt::format("{}/{}.safetensors", MAC_TEST_DATA, name)))
        names.push_back(name);
  return names;
}

TEST(GoldenFiles, AreThereForEveryKindOfTheSizesOfThePaper) {
  for (const std::string& kind : layer_kind_names())
    for (const std::string system : {"burgers", "power_grid"})
      EXPECT_EQ(Fixture(system + "_" + kind).problem.shape, paper_network(system, layer_kind_from(kind)))
          << system << " " << kind;
}

std::string name_of(const testing::TestParamInfo<Golden::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param);
}

INSTANTIATE_TEST_SUITE_P(Engines, Golden,
                         testing::Combine(testing::ValuesIn(engine_table()),
                                          testing::ValuesIn(fixtures(layer_kind_names()))),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Engines, Official,
                         testing::Combine(testing::ValuesIn(engine_table()),
                                          testing::ValuesIn(fixtures({"mamba"}))),
                         name_of);

}  // namespace
}  // namespace mac::test
