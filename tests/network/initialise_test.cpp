#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mac/network.hpp>
#include <numbers>

namespace mac {
namespace {

const NetworkShape burgers{LayerKind::mamba, 6, 6, 22, 4, 12};
const NetworkShape burgers_gru{LayerKind::gru, 6, 6, 28, 4, 0};

std::vector<double> tensor(const NetworkShape& shape, const std::string& name, std::uint64_t seed = 1) {
  const ParameterLayout layout(shape);
  const TensorSpec& spec = layout.at(name);
  const auto parameters = initial_parameters(shape, seed);
  const auto begin = parameters.begin() + static_cast<std::ptrdiff_t>(spec.offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(spec.size)};
}

/// Uniform in ±bound: inside it, close to it at both ends, mean and variance within four standard errors.
void expect_uniform(const NetworkShape& shape, const std::string& name, double bound) {
  SCOPED_TRACE(name);
  const auto values = tensor(shape, name);
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) {
    EXPECT_LE(std::abs(value), bound);
    sum += value / bound;
    squares += value * value / (bound * bound);
  }
  EXPECT_NEAR(sum / count, 0, 4 * std::sqrt(1 / (3 * count)));
  EXPECT_NEAR(squares / count, 1.0 / 3, 4 * std::sqrt(4.0 / 45 / count));
  EXPECT_GT(*std::ranges::max_element(values), bound * (1 - 20 / count));
  EXPECT_LT(*std::ranges::min_element(values), -bound * (1 - 20 / count));
}

TEST(InitialParameters, AreUniformWithinTheFanInOfTheirLayer) {
  expect_uniform(burgers, "input_proj.weight", 1 / std::sqrt(6));
  expect_uniform(burgers, "input_proj.bias", 1 / std::sqrt(6));
  expect_uniform(burgers, "blocks.2.mamba.in_proj.weight", 1 / std::sqrt(22));
  expect_uniform(burgers, "blocks.2.mamba.conv1d.weight", 0.5);
  expect_uniform(burgers, "blocks.2.mamba.conv1d.bias", 0.5);
  expect_uniform(burgers, "blocks.2.mamba.x_proj.weight", 1 / std::sqrt(44));
  expect_uniform(burgers, "blocks.2.mamba.dt_proj.weight", 1 / std::sqrt(2));
  expect_uniform(burgers, "blocks.2.mamba.out_proj.weight", 1 / std::sqrt(44));
  expect_uniform(burgers, "output_proj.0.weight", 1 / std::sqrt(22));
  expect_uniform(burgers, "output_proj.0.bias", 1 / std::sqrt(22));
  expect_uniform(burgers, "output_proj.2.weight", 1 / std::sqrt(22));
  for (const char* name : {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"})
    expect_uniform(burgers_gru, std::string("blocks.0.gru.") + name, 1 / std::sqrt(28));
}

TEST(InitialParameters, StartMambaWithStepsBetweenAThousandthAndATenth) {
  double log_sum = 0;
  const auto biases = tensor(burgers, "blocks.1.mamba.dt_proj.bias");
  for (const double bias : biases) {
    const double step = std::log1p(std::exp(bias));
    EXPECT_GE(step, 1e-3 * (1 - 1e-12));
    EXPECT_LE(step, 0.1 * (1 + 1e-12));
    log_sum += std::log10(step);
  }
  // Log-uniform over two decades; four standard errors of the mean.
  const auto count = static_cast<double>(biases.size());
  EXPECT_NEAR(log_sum / count, -2, 4 * std::sqrt(4.0 / 12 / count));
}

TEST(InitialParameters, StartMambaWithIntegerDecayRatesAndUnitSkip) {
  const auto A_log = tensor(burgers, "blocks.0.mamba.A_log");
  for (std::size_t i = 0; i < A_log.size(); ++i)
    EXPECT_NEAR(std::exp(A_log[i]), static_cast<double>(i % 12 + 1), 1e-13);
  for (const double value : tensor(burgers, "blocks.0.mamba.D")) EXPECT_EQ(value, 1);
}

TEST(InitialParameters, StartOscillatorsWithOddDecayRatesThatTurnSlowly) {
  const NetworkShape shape{LayerKind::oscillator, 6, 6, 22, 4, 6};
  const auto A_log = tensor(shape, "blocks.0.oscillator.A_log"),
             omega_log = tensor(shape, "blocks.0.oscillator.omega_log");
  for (std::size_t i = 0; i < A_log.size(); ++i) {
    const auto k = static_cast<double>(i % 6);
    EXPECT_NEAR(std::exp(A_log[i]), 2 * k + 1, 1e-13);  // rounding of the logarithm and back
    EXPECT_NEAR(std::exp(omega_log[i]), std::numbers::pi / 10 * (k + 1), 1e-13);
  }
}

TEST(InitialParameters, StartNormsAsTheIdentity) {
  for (const std::string norm : {"norm", "blocks.3.norm"}) {
    for (const double value : tensor(burgers, norm + ".weight")) EXPECT_EQ(value, 1);
    for (const double value : tensor(burgers, norm + ".bias")) EXPECT_EQ(value, 0);
  }
}

TEST(InitialParameters, DifferBySeedAndTensor) {
  EXPECT_EQ(initial_parameters(burgers, 1), initial_parameters(burgers, 1));
  EXPECT_NE(tensor(burgers, "input_proj.weight", 1), tensor(burgers, "input_proj.weight", 2));
  EXPECT_NE(tensor(burgers, "blocks.0.mamba.in_proj.weight"),
            tensor(burgers, "blocks.1.mamba.in_proj.weight"));
}

TEST(InitialParameters, AreTheSameEverywhere) {
  EXPECT_DOUBLE_EQ(tensor(burgers, "input_proj.weight", 7)[0], -0.32716340605137573);
  EXPECT_DOUBLE_EQ(tensor(burgers, "blocks.3.mamba.dt_proj.bias", 7)[0], -5.7811177514282512);
  EXPECT_DOUBLE_EQ(tensor(burgers, "output_proj.2.bias", 7)[0], -0.033214773514260471);
  EXPECT_DOUBLE_EQ(tensor(burgers_gru, "blocks.0.gru.weight_hh_l0", 7)[5], -0.043884154597026825);
}

}  // namespace
}  // namespace mac
