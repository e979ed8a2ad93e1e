// Networks that predict means and deviations: noise times the deviation is added, in every mode the same.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/error.hpp>
#include <mac/model.hpp>

#include "support/files.hpp"

namespace mac::test {
namespace {

std::vector<double> wave(std::size_t count) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(std::sin(0.7 * static_cast<double>(i)));
  return values;
}

/// Three inputs, two outputs and the noise of each.
class Deviations : public testing::TestWithParam<LayerKind> {
 protected:
  Deviations() {
    shape_ = {GetParam(), 3 + 2, 2, 5, 2, has_states(GetParam()) ? 4u : 0u};
    shape_.deviations = true;
    parameters_ = initial_parameters(shape_, 1);
  }
  NetworkShape shape_;
  std::vector<double> parameters_;
};

TEST_P(Deviations, AddNoiseTimesWhatTheNetworkBehindThemSays) {
  EXPECT_EQ(shape_.core().d_in, 3u);
  EXPECT_EQ(shape_.core().d_out, 4u);
  const SequenceDims dims{2, 6};
  const std::vector<double> x = wave(2 * 6 * 5);
  std::vector<double> y(2 * 6 * 2), inputs, of_core(2 * 6 * 4);
  for (std::size_t row = 0; row < 12; ++row)
    inputs.insert(inputs.end(), x.begin() + static_cast<std::ptrdiff_t>(5 * row),
                  x.begin() + static_cast<std::ptrdiff_t>(5 * row + 3));
  make_reference_engine<double>(shape_)->forward(parameters_.data(), dims, x.data(), y.data());
  make_reference_engine<double>(shape_.core())
      ->forward(parameters_.data(), dims, inputs.data(), of_core.data());
  for (std::size_t row = 0; row < 12; ++row)
    for (std::size_t j = 0; j < 2; ++j) {
      const double deviation = std::log(1 + std::exp(of_core[4 * row + 2 + j]));
      EXPECT_NEAR(y[2 * row + j], of_core[4 * row + j] + deviation * x[5 * row + 3 + j], 1e-14);
    }
}

TEST_P(Deviations, StepAsTheirSequencesGoForAnyBatch) {
  const SequenceDims dims{7, 5};  // of more than one tile
  const std::vector<double> x = wave(7 * 5 * 5);
  const std::size_t size = shape_.state_size();
  std::vector<double> state(7 * size), y(7 * 5 * 2), of_step(7 * 2), inputs(7 * 5);
  make_cpu_engine<double>(shape_, 2)->forward(parameters_.data(), dims, x.data(), y.data());
  const StepEngine<double> engine(shape_, parameters_);
  for (std::size_t t = 0; t < 5; ++t) {
    for (std::size_t b = 0; b < 7; ++b) std::copy_n(x.data() + (b * 5 + t) * 5, 5, inputs.data() + b * 5);
    engine.step(7, inputs.data(), of_step.data(), state.data(), 2);
    for (std::size_t b = 0; b < 7; ++b)
      for (std::size_t j = 0; j < 2; ++j) EXPECT_NEAR(of_step[2 * b + j], y[(b * 5 + t) * 2 + j], 1e-12);
  }
}

TEST_P(Deviations, HaveTheGradientOfTheirOutputs) {
  const SequenceDims dims{2, 4};
  std::vector<double> x = wave(2 * 4 * 5), parameters = parameters_;
  const std::size_t size = shape_.state_size();
  std::vector<double> initial = wave(2 * size), after(2 * size), y(2 * 4 * 2);
  const auto engine = make_cpu_engine<double>(shape_, 1);
  const auto tape = engine->make_tape(dims);
  const std::vector<double> weights = wave(y.size());
  const auto loss = [&] {
    engine->forward(parameters.data(), dims, x.data(), y.data(), initial.data(), after.data(), tape.get());
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += weights[i] * y[i];
    for (const double value : after) sum += value;
    return sum;
  };
  loss();
  const std::vector<double> state_ones(after.size(), 1.0);
  std::vector<double> d_parameters(parameters.size()), d_x(x.size()), d_initial(initial.size());
  engine->backward(parameters.data(), dims, x.data(), initial.data(), weights.data(), *tape,
                   {d_parameters.data(), d_x.data(), d_initial.data(), state_ones.data()});
  const auto check = [&](std::vector<double>& values, const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 40) {
      const double kept = values[i], h = 1e-6;
      values[i] = kept + h;
      const double above = loss();
      values[i] = kept - h;
      const double below = loss();
      values[i] = kept;
      // Rounding of a sum of order one over h.
      EXPECT_NEAR((above - below) / (2 * h), gradient[i], 1e-7 * (1 + std::abs(gradient[i]))) << i;
    }
  };
  check(parameters, d_parameters);
  check(x, d_x);
  check(initial, d_initial);
}

TEST_P(Deviations, ComeBackFromTheirFile) {
  Model model;
  model.shape = shape_;
  model.noise = {.channels = 2, .time = 0.3};
  model.parameters = parameters_;
  model.dtype = Dtype::f64;
  model.normalisation = Normalisation::identity(shape_, model.noise);
  model.closure_step = 0.1;
  const ScratchFolder folder;
  save_model(model, folder.file("model.safetensors"));
  const Model back = load_model(folder.file("model.safetensors"));
  EXPECT_EQ(back.shape, model.shape);
  EXPECT_EQ(back.noise, model.noise);
  EXPECT_EQ(back.parameters, model.parameters);
  EXPECT_EQ(back.input_size(), 3u);

  model.noise.channels = 1;
  model.normalisation = Normalisation::identity(shape_, model.noise);
  EXPECT_THROW(save_model(model, folder.file("wrong.safetensors")), Error);  // which reads it back
}

INSTANTIATE_TEST_SUITE_P(Kinds, Deviations, testing::ValuesIn(layer_kinds),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

TEST(DeviationShape, NeedsMoreInputsThanItsNoise) {
  NetworkShape shape{LayerKind::mlp, 2, 2, 4, 1, 0};
  shape.deviations = true;
  EXPECT_THROW(validate(shape), UsageError);
}

}  // namespace
}  // namespace mac::test
