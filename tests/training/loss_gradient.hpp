// The gradient of a loss against difference quotients, in float64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "training/losses.hpp"
#include "training/systems.hpp"

namespace mac::test {

/// How a quotient is taken, and how near the gradient must be: `absolute` for the rounding of the loss over the step,
/// `relative` for what the quotient leaves out.
struct Quotient {
  int order;  // 2 or 4
  double step, absolute, relative;
};

/// For losses of order one that are smooth: h^4 times fifth derivatives.
inline constexpr Quotient smooth{4, 1e-4, 1e-9, 1e-7};
/// For scores, which have a kink wherever two members, or a member and the truth, meet: a short step rarely crosses one.
inline constexpr Quotient kinked{2, 1e-5, 1e-9, 1e-6};

/// The loss of `stage` at the parameters, twice, and its gradient along a random direction for each tensor, which catches
/// every wrong entry; entry by entry would take minutes.
inline void expect_gradient(const NetworkShape& shape, const LossContext& context, const StagePlan& stage,
                            std::vector<double> parameters, const Batch& batch, Quotient by = smooth) {
  const auto engine = make_reference_engine<double>(shape);
  const auto loss = make_loss<double>(stage, context, *engine);
  std::vector<double> gradient(parameters.size()), again(parameters.size());
  loss->evaluate(parameters.data(), batch, gradient.data());
  loss->evaluate(parameters.data(), batch, again.data());
  EXPECT_EQ(gradient, again);  // nothing of the first is left in the buffers

  RandomStream random(5, Purpose::noise, 1);
  const ParameterLayout layout(shape);
  for (const TensorSpec& tensor : layout.tensors()) {
    const std::vector<double> direction = normal_values(tensor.size, 1, random), here = parameters;
    const auto at = [&](double h) {
      for (std::size_t i = 0; i < tensor.size; ++i)
        parameters[tensor.offset + i] = here[tensor.offset + i] + h * direction[i];
      const double value = loss->evaluate(parameters.data(), batch, nullptr);
      parameters = here;
      return value;
    };
    const double h = by.step;
    const double quotient = by.order == 4 ? (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
                                          : (at(h) - at(-h)) / (2 * h);
    double expected = 0;
    for (std::size_t i = 0; i < tensor.size; ++i) expected += gradient[tensor.offset + i] * direction[i];
    EXPECT_NEAR(expected, quotient, by.absolute + by.relative * std::abs(quotient)) << tensor.name;
  }
}

}  // namespace mac::test
