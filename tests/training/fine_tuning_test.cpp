#include "training/fine_tuning.hpp"

#include <gtest/gtest.h>

#include <mac/error.hpp>
#include <mac/network.hpp>
#include <mac/random.hpp>

#include "network/renormalise.hpp"
#include "training/small_training.hpp"

namespace mac::test {
namespace {

std::vector<double> uniform_numbers(std::size_t count, double low, double high, std::uint32_t stream) {
  RandomStream random(7, Purpose::noise, stream);
  std::vector<double> numbers(count);
  for (double& number : numbers) number = random.uniform(low, high);
  return numbers;
}

Normalisation some_normalisation(const NetworkShape& shape, std::uint32_t stream) {
  return {uniform_numbers(shape.d_in, -1, 1, stream), uniform_numbers(shape.d_in, 0.5, 3, stream + 1),
          uniform_numbers(shape.d_out, -1, 1, stream + 2), uniform_numbers(shape.d_out, 0.5, 3, stream + 3)};
}

/// The closure of a network along physical states (time, d_in).
std::vector<double> closures(const NetworkShape& shape, const std::vector<double>& parameters,
                             const Normalisation& scale, const std::vector<double>& states) {
  std::vector<double> x(states.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = (states[i] - scale.input_mean[i % shape.d_in]) / scale.input_scale[i % shape.d_in];
  const SequenceDims dims{1, states.size() / shape.d_in};
  std::vector<double> u(dims.time * shape.d_out);
  make_cpu_engine<double>(shape, 1)->forward(parameters.data(), dims, x.data(), u.data(), nullptr, nullptr,
                                             nullptr);
  for (std::size_t i = 0; i < u.size(); ++i)
    u[i] = u[i] * scale.output_scale[i % shape.d_out] + scale.output_mean[i % shape.d_out];
  return u;
}

TEST(FineTuning, KeepsTheClosureUnderAnotherNormalisation) {
  for (const NetworkShape& shape :
       {NetworkShape{LayerKind::mamba, 3, 2, 5, 2, 3}, NetworkShape{LayerKind::gru, 3, 2, 5, 2, 0}}) {
    Model model;
    model.shape = shape;
    model.parameters = initial_parameters(shape, 4);
    model.normalisation = some_normalisation(shape, 10);
    const Normalisation other = some_normalisation(shape, 20);
    const std::vector<double> states = uniform_numbers(30 * shape.d_in, -2, 2, 30);
    const auto before = closures(shape, model.parameters, model.normalisation, states),
               after = closures(shape, parameters_for(model, other), other, states);
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_NEAR(before[i], after[i], 1e-12) << i;  // rounding of two layers in double
  }
}

/// The model after so gentle a training that its weights stay where they begin: float rounding apart.
Model barely_trained(const std::string& training, const std::string& path) {
  trained_bytes(
      "[models.training]\nsteps = 1\nmax_lr = 1e-12\nweight_decay = 0\naveraging = 0\nselect = 'last'\n" +
          training,
      path);
  return load_model(path);
}

TEST(FineTuning, StartsFromTheWeightsOfTheFile) {
  const ScratchFolder folder;
  const std::string first = folder.file("first.safetensors"), init = "init = '" + first + "'\n";
  trained_bytes("", first);
  const Model trained = load_model(first);
  const Model same = barely_trained(init, folder.file("same.safetensors"));
  ASSERT_EQ(same.normalisation, trained.normalisation);
  for (std::size_t i = 0; i < trained.parameters.size(); ++i)
    ASSERT_NEAR(same.parameters[i], trained.parameters[i], 1e-6) << i;

  const Model scaled =
      barely_trained(init + "normalisation = 'mean_std'\n", folder.file("scaled.safetensors"));
  ASSERT_NE(scaled.normalisation, trained.normalisation);
  const std::vector<double> states = uniform_numbers(20 * trained.shape.d_in, -0.1, 0.1, 1);
  const auto before = closures(trained.shape, trained.parameters, trained.normalisation, states),
             after = closures(scaled.shape, scaled.parameters, scaled.normalisation, states);
  // Weights in float; closures are of the size of their scales, up to 0.03.
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(before[i], after[i], 1e-7) << i;
}

TEST(FineTuning, RefusesANetworkThatDoesNotFit) {
  const ScratchFolder folder;
  const std::string path = folder.file("other.safetensors");
  const auto complaint = [&](const std::string& training) -> std::string {
    try {
      trained_bytes("[models.training]\ninit = '" + path + "'\n" + training, folder.file("new.safetensors"));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(complaint("").find("other.safetensors"), std::string::npos) << "it is not there";

  Model model;
  model.shape = NetworkShape{LayerKind::mamba, 6, 6, 4, 2, 3};
  model.parameters = initial_parameters(model.shape, 1);
  model.normalisation = Normalisation::identity(model.shape);
  save_model(model, path);
  EXPECT_NE(complaint("").find("other sizes"), std::string::npos) << complaint("");
  model.shape = NetworkShape{LayerKind::mamba, 6, 6, 5, 2, 3};
  model.parameters = initial_parameters(model.shape, 1);
  model.input_names = {"a", "b", "c", "d", "e", "f"};
  model.output_names = {"A", "B", "C", "D", "E", "F"};
  save_model(model, path);
  EXPECT_NE(complaint("").find("is a closure A B C D E F of a b c d e f"), std::string::npos)
      << complaint("");
}

}  // namespace
}  // namespace mac::test
