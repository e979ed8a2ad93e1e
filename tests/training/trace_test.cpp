// Sixty steps of PyTorch's AdamW under OneCycleLR in float64, repeated from the same start and batches.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mac/network.hpp>
#include <mac/safetensors.hpp>

#include "training/adamw.hpp"
#include "training/one_cycle.hpp"

namespace mac::test {
namespace {

class TrainingTrace : public testing::TestWithParam<std::string> {
 protected:
  TrainingTrace()
      : file(Safetensors::read(fmt::format("{}/train_trace_{}.safetensors", MAC_TEST_DATA, GetParam()))),
        kind(layer_kind_from(file.metadata().at("kind"))),
        shape{kind,
              size("d_in"),
              size("d_out"),
              size("d_model"),
              size("n_blocks"),
              has_states(kind) ? size("d_state") : 0},
        layout(shape) {}

  double number(const std::string& key) const { return std::stod(file.metadata().at(key)); }
  std::size_t size(const std::string& key) const { return static_cast<std::size_t>(number(key)); }

  std::vector<double> weights(const std::string& prefix) const {
    std::vector<double> flat;
    for (const TensorSpec& tensor : layout.tensors())
      for (const double value : file.numbers(prefix + tensor.name)) flat.push_back(value);
    return flat;
  }

  Safetensors file;
  LayerKind kind;
  NetworkShape shape;
  ParameterLayout layout;
};

TEST_P(TrainingTrace, IsRepeatedStepByStep) {
  const std::vector<double> x = file.numbers("x"), target = file.numbers("target");
  const std::vector<double> losses = file.numbers("loss"), rates = file.numbers("lr"),
                            betas = file.numbers("beta1");
  const auto& dims_of = file.at("x").shape;  // (steps, batch, time, d_in)
  const SequenceDims dims{dims_of[1], dims_of[2]};
  const std::size_t rows = dims.batch * dims.time, x_size = rows * shape.d_in, y_size = rows * shape.d_out;

  const OneCycle schedule{dims_of[0],           number("max_lr"),           number("pct_start"),
                          number("div_factor"), number("final_div_factor"), true};
  const auto engine = make_reference_engine<double>(shape);
  const auto tape = engine->make_tape(dims);
  std::vector<double> parameters = weights("initial."), gradient(parameters.size());
  AdamW<double> optimiser(parameters.size(), number("weight_decay"));
  std::vector<double> y(y_size), d_y(y_size);
  for (std::size_t step = 0; step < schedule.steps; ++step) {
    engine->forward(parameters.data(), dims, x.data() + step * x_size, y.data(), nullptr, nullptr,
                    tape.get());
    double loss = 0;
    for (std::size_t i = 0; i < y_size; ++i) {
      const double error = y[i] - target[step * y_size + i];
      loss += error * error / static_cast<double>(y_size);
      d_y[i] = 2 * error / static_cast<double>(y_size);
    }
    std::ranges::fill(gradient, 0);
    engine->backward(parameters.data(), dims, x.data() + step * x_size, nullptr, d_y.data(), *tape,
                     {gradient.data()});
    const auto [lr, beta1] = schedule.at(step);
    // Rounding of float64, grown over sixty steps of a smooth problem.
    EXPECT_NEAR(lr, rates[step], 1e-9 * rates[step]) << "step " << step;
    EXPECT_NEAR(beta1, betas[step], 1e-9) << "step " << step;
    EXPECT_NEAR(loss, losses[step], 1e-9 * losses[step]) << "step " << step;
    optimiser.step(parameters, gradient, lr, beta1);
  }
  const std::vector<double> expected = weights("final.");
  for (const TensorSpec& tensor : layout.tensors())
    for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i)
      EXPECT_NEAR(parameters[i], expected[i], 1e-8) << tensor.name;
}

INSTANTIATE_TEST_SUITE_P(Kinds, TrainingTrace, testing::Values("mamba", "gru"),
                         [](const auto& info) { return info.param; });

TEST(OneCycle, EndsAtItsLowestRateAndHoldsMomentumStillOnRequest) {
  const OneCycle schedule{1000, 4e-3, 0.1, 25, 500, false};
  EXPECT_DOUBLE_EQ(schedule.at(0).lr, 4e-3 / 25);
  EXPECT_DOUBLE_EQ(schedule.at(99).lr, 4e-3);
  EXPECT_NEAR(schedule.at(999).lr, 4e-3 / 25 / 500, 1e-12);
  EXPECT_EQ(schedule.at(500).beta1, 0.9);
}

TEST(OneCycle, IsFiniteWhenThereIsNoRoomForAWarmUp) {
  for (const std::size_t steps : {1, 2, 10})
    for (std::size_t step = 0; step < steps; ++step) {
      const auto [lr, beta1] = OneCycle{steps, 1e-3, 0.1, 25, 500, true}.at(step);
      EXPECT_TRUE(lr > 0 && lr <= 1e-3 && beta1 >= 0.85 && beta1 <= 0.95) << steps << " " << step;
    }
}

TEST(ClipGradient, ShortensALongGradientAndLeavesAShortOne) {
  std::vector<double> gradient{3, 4};
  EXPECT_DOUBLE_EQ(clip_gradient<double>(gradient, 10), 5);
  EXPECT_EQ(gradient, (std::vector<double>{3, 4}));
  EXPECT_DOUBLE_EQ(clip_gradient<double>(gradient, 1), 5);
  EXPECT_DOUBLE_EQ(gradient[0], 0.6);
}

}  // namespace
}  // namespace mac::test
