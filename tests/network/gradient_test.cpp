// Gradients against central differences of the loss L = d_y · y + d_final_state · final_state.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "network/engine_table.hpp"

namespace mac::test {
namespace {

double loss(const EngineRow& row, const Problem& problem) {
  const Result result = row.forward(problem);
  double sum = 0;
  for (std::size_t i = 0; i < result.y.size(); ++i) sum += problem.d_y[i] * result.y[i];
  for (std::size_t i = 0; i < problem.d_final_state.size(); ++i)
    sum += problem.d_final_state[i] * result.final_state[i];
  return sum;
}

/// dL/dv for every v of one array of the problem, from L at v ± h, v ± 2h and v ± 3h (error h⁶).
std::vector<double> difference_quotients(const EngineRow& row, Problem problem,
                                         std::vector<double> Problem::*array) {
  const double h = 1e-3;
  std::vector<double> gradient;
  for (double& value : problem.*array) {
    const double here = value;
    const auto across = [&](double offset) {
      value = here + offset;
      const double above = loss(row, problem);
      value = here - offset;
      return above - loss(row, problem);
    };
    gradient.push_back((45 * across(h) - 9 * across(2 * h) + across(3 * h)) / (60 * h));
    value = here;
  }
  return gradient;
}

class DoubleEngine : public testing::TestWithParam<EngineRow> {
 protected:
  void SetUp() override {
    if (!GetParam().unavailable.empty()) GTEST_SKIP() << GetParam().unavailable;
  }
};

// What the quotients leave: h⁶ times seventh derivatives (large before a LayerNorm), and rounding 1e-16·L/h, which counts
// where a tensor hardly matters.
constexpr double tolerance = 1e-9;

void check(const EngineRow& row, const NetworkShape& shape, SequenceDims dims) {
  SCOPED_TRACE(fmt::format("{} d_model {} batch {} time {}", to_string(shape.kind), shape.d_model, dims.batch,
                           dims.time));
  const Problem problem = random_problem(shape, dims, 5);
  const Result result = row.forward_backward(problem);
  const auto worst =
      worst_tensor(shape, result.d_parameters, difference_quotients(row, problem, &Problem::parameters));
  EXPECT_LT(worst.error, tolerance) << worst.tensor;
  EXPECT_LT(relative_error(result.d_x, difference_quotients(row, problem, &Problem::x)), tolerance);
  EXPECT_LT(
      relative_error(result.d_initial_state, difference_quotients(row, problem, &Problem::initial_state)),
      tolerance);
}

TEST_P(DoubleEngine, HasTheGradientOfEveryKindOfNetwork) {
  for (const LayerKind kind : layer_kinds) check(GetParam(), shape_of(kind, 6), {2, 6});
}

TEST_P(DoubleEngine, HasTheGradientWhenTheSequenceIsShorterThanTheConvolution) {
  for (const std::size_t time : {1, 2, 3})
    for (const LayerKind kind : layer_kinds) check(GetParam(), shape_of(kind, 4, 1), {2, time});
}

std::vector<EngineRow> double_rows() {
  std::vector<EngineRow> rows;
  std::ranges::copy_if(engine_table(), std::back_inserter(rows), &EngineRow::is_double);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Engines, DoubleEngine, testing::ValuesIn(double_rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mac::test
