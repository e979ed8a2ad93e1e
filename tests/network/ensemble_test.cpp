// An ensemble gives the mean of its members' closures in every mode, each member with a memory of its own.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/ensemble.hpp>
#include <mac/error.hpp>

#include "network/derivative/step_derivative.hpp"
#include "support/files.hpp"

namespace mac::test {
namespace {

Model network(LayerKind kind, std::uint64_t seed, double scale = 1) {
  Model model;
  model.shape = {kind, 3, 2, 5, 2, has_states(kind) ? 4u : 0u};
  model.parameters = initial_parameters(model.shape, seed);
  model.dtype = Dtype::f64;
  model.normalisation = {{0.1, 0.2, 0.3}, {scale, 2 * scale, 1}, {0.5, -0.5}, {0.3 * scale, 0.7}};
  model.system = "mine";
  return model;
}

/// Closures in physical units along `states` (time, 3), by steps.
std::vector<double> closures(const Model& model, const std::vector<double>& states) {
  const StepEngine<double> engine(model.shape, model.parameters);
  std::vector<double> state(engine.state_size()), y(2), x(3), result;
  const Normalisation& n = model.normalisation;
  for (std::size_t t = 0; t < states.size() / 3; ++t) {
    for (std::size_t i = 0; i < 3; ++i) x[i] = (states[3 * t + i] - n.input_mean[i]) / n.input_scale[i];
    engine.step(1, x.data(), y.data(), state.data());
    for (std::size_t j = 0; j < 2; ++j) result.push_back(n.output_mean[j] + n.output_scale[j] * y[j]);
  }
  return result;
}

std::vector<double> wave(std::size_t count) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(std::sin(0.7 * static_cast<double>(i)));
  return values;
}

class Ensemble : public testing::TestWithParam<LayerKind> {
 protected:
  // The third has other units.
  std::vector<Model> members_{network(GetParam(), 1), network(GetParam(), 2), network(GetParam(), 3, 1.7)};
  Model ensemble_ = make_ensemble(members_, {"a", "b", "c"});
};

TEST_P(Ensemble, AveragesTheClosuresOfItsMembers) {
  const std::vector<double> states = wave(3 * 11);
  std::vector<double> mean(2 * 11);
  for (const Model& member : members_) {
    const std::vector<double> own = closures(member, states);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += own[i] / 3;
  }
  const std::vector<double> whole = closures(ensemble_, states);
  for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(whole[i], mean[i], 1e-13) << i;
}

TEST_P(Ensemble, StepsAsItsSequencesGoForAnyBatch) {
  const SequenceDims dims{7, 5};
  const std::vector<double> x = wave(7 * 5 * 3);
  const std::size_t size = ensemble_.shape.state_size();
  std::vector<double> initial = wave(7 * size), after(7 * size), y(7 * 5 * 2), of_step(7 * 2), inputs(7 * 3);
  make_reference_engine<double>(ensemble_.shape)
      ->forward(ensemble_.parameters.data(), dims, x.data(), y.data(), initial.data(), after.data());
  const StepEngine<double> engine(ensemble_.shape, ensemble_.parameters);
  for (std::size_t t = 0; t < 5; ++t) {
    for (std::size_t b = 0; b < 7; ++b) std::copy_n(x.data() + (b * 5 + t) * 3, 3, inputs.data() + b * 3);
    engine.step(7, inputs.data(), of_step.data(), initial.data(), 2);
    for (std::size_t b = 0; b < 7; ++b)
      for (std::size_t j = 0; j < 2; ++j) EXPECT_NEAR(of_step[2 * b + j], y[(b * 5 + t) * 2 + j], 1e-12);
  }
  for (std::size_t i = 0; i < initial.size(); ++i) EXPECT_NEAR(initial[i], after[i], 1e-12) << i;
}

TEST_P(Ensemble, HasTheGradientOfItsSum) {
  const SequenceDims dims{2, 4};
  std::vector<double> x = wave(2 * 4 * 3), parameters = ensemble_.parameters;
  const std::size_t size = ensemble_.shape.state_size();
  std::vector<double> initial = wave(2 * size), after(2 * size), y(2 * 4 * 2);
  const auto engine = make_cpu_engine<double>(ensemble_.shape, 1);
  const auto tape = engine->make_tape(dims);
  const auto loss = [&] {  // the sum of all outputs and of the state that is left
    engine->forward(parameters.data(), dims, x.data(), y.data(), initial.data(), after.data(), tape.get());
    double sum = 0;
    for (const auto* values : {&y, &after})
      for (const double value : *values) sum += value;
    return sum;
  };
  loss();
  const std::vector<double> ones(y.size(), 1.0), state_ones(after.size(), 1.0);
  std::vector<double> d_parameters(parameters.size()), d_x(x.size()), d_initial(initial.size());
  engine->backward(parameters.data(), dims, x.data(), initial.data(), ones.data(), *tape,
                   {d_parameters.data(), d_x.data(), d_initial.data(), state_ones.data()});
  const auto check = [&](std::vector<double>& values, const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 17) {
      const double kept = values[i], h = 1e-6;
      values[i] = kept + h;
      const double above = loss();
      values[i] = kept - h;
      const double below = loss();
      values[i] = kept;
      EXPECT_NEAR((above - below) / (2 * h), gradient[i], 1e-7 * (1 + std::abs(gradient[i]))) << i;
    }
  };
  check(parameters, d_parameters);
  check(x, d_x);
  check(initial, d_initial);
}

TEST_P(Ensemble, HasADerivativeOfItsStep) {
  const derivative::StepDerivative derivative(ensemble_.shape, ensemble_.parameters);
  const derivative::Work work = derivative.make_work();
  const StepEngine<double> engine(ensemble_.shape, ensemble_.parameters);
  const std::vector<double> x = wave(3), memory = wave(engine.state_size()), dx{0.3, -0.2, 0.9};
  std::vector<double> d_memory(memory.size()), dy(2);
  derivative.tangent(1, {x.data(), memory.data()}, dx.data(), d_memory.data(), dy.data(), work);
  const auto output = [&](double h) {
    std::vector<double> at = x, state = memory, y(2);
    for (std::size_t i = 0; i < 3; ++i) at[i] += h * dx[i];
    engine.step(1, at.data(), y.data(), state.data());
    return y;
  };
  const auto above = output(1e-6), below = output(-1e-6);
  for (std::size_t j = 0; j < 2; ++j) EXPECT_NEAR(dy[j], (above[j] - below[j]) / 2e-6, 1e-7);
}

TEST_P(Ensemble, ComesBackFromItsFile) {
  const ScratchFolder folder;
  save_model(ensemble_, folder.file("ensemble.safetensors"));
  const Model read = load_model(folder.file("ensemble.safetensors"));
  EXPECT_EQ(read.shape, ensemble_.shape);
  EXPECT_EQ(read.parameters, ensemble_.parameters);
  EXPECT_EQ(read.provenance.at("ensemble_of"), "a b c");
}

INSTANTIATE_TEST_SUITE_P(OfEveryKind, Ensemble, testing::ValuesIn(layer_kinds),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(EnsembleOf, NetworksThatDoNotFitIsRefusedWithTheReason) {
  const auto refused = [](std::vector<Model> models) -> std::string {
    try {
      make_ensemble(models, {"a", "b"});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  const Model first = network(LayerKind::gru, 1);
  Model other = network(LayerKind::lstm, 1);
  EXPECT_EQ(
      refused({first, other}),
      "b: is a network of other sizes (lstm, 2 blocks of 5 channels) than a (gru, 2 blocks of 5 channels)");
  other = first, other.system = "yours";
  EXPECT_EQ(refused({first, other}), "b: is the closure of another system than a");
  other = first, other.closure_step = 0.1;
  EXPECT_EQ(refused({first, other}), "b: is the closure of another closure step than a");
  other = first, other.held = HeldClosure{Hold::linear, Target::mean};
  EXPECT_EQ(refused({first, other}), "b: is coupled by another hold or target than a");
  EXPECT_EQ(refused({first}), "an ensemble has at least two networks");
  EXPECT_EQ(refused({first, make_ensemble({first, first}, {"a", "b"})}), "b: is an ensemble already");
}

}  // namespace
}  // namespace mac::test
