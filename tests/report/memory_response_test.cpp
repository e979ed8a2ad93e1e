#include "evaluation/memory_response.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mac/error.hpp>
#include <mac/network.hpp>
#include <nlohmann/json.hpp>

#include "report/figures.hpp"
#include "report/tiny_run.hpp"
#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

using test::ScratchFolder;

/// Data of the tiny Burgers experiment, made once.
struct Data {
  Data() : experiment(Experiment::parse(test::tiny_burgers, "tiny.toml")) {
    generate(experiment, folder.file("data.h5"), {1, true});
  }
  ScratchFolder folder;
  Experiment experiment;
  DataFile open() const { return DataFile::open(folder.file("data.h5")); }
  Model model(std::size_t index) const {
    Model model = test::untrained_model(experiment, experiment.models[index], 7);
    model.normalisation.input_scale = {0.3, 0.1, 0.05, 0.3, 0.1, 0.05};
    model.normalisation.input_mean = {0.01, 0, 0, -0.02, 0, 0};
    model.normalisation.output_scale = {1e-3, 2e-3, 3e-3, 1e-3, 2e-3, 3e-3};
    return model;
  }
};
const Data& tiny() {
  static const Data data;
  return data;
}

/// C_j at the end of a history y (times, 6), by the step engine from an empty memory.
double closure_after(const Model& model, const std::vector<double>& y, std::size_t j) {
  const StepEngine<double> engine(model.shape, model.parameters);
  std::vector<double> state(engine.state_size()), x(6), out(6);
  for (std::size_t t = 0; t < y.size() / 6; ++t) {
    for (std::size_t i = 0; i < 6; ++i)
      x[i] = (y[t * 6 + i] - model.normalisation.input_mean[i]) / model.normalisation.input_scale[i];
    engine.step(1, x.data(), out.data(), state.data());
  }
  return model.normalisation.output_mean[j] + model.normalisation.output_scale[j] * out[j];
}

class MemoryOfKind : public testing::TestWithParam<std::size_t> {};

TEST_P(MemoryOfKind, IsTheDifferenceThatAnImpulseMakesInTheStepEngine) {
  const Model model = tiny().model(GetParam());
  const DataFile data = tiny().open();
  MemoryOptions options;
  options.trajectories = 1;
  options.times = 1;  // t = the end of the trajectory
  options.longest = 0.2;
  const MemoryResponse response = memory_response(model, data, options);
  ASSERT_EQ(response.lags, 21u);
  ASSERT_EQ(response.samples, 1u);

  const DataSplit split = data.split("test");
  std::vector<double> y(split.times() * 6);
  split.read_resolved(0, 0, split.times(), y.data());
  for (const std::size_t lag : {0u, 1u, 3u, 4u, 20u})
    for (const std::size_t i : {0u, 4u})
      for (const std::size_t j : {0u, 2u, 5u}) {
        // Central differences: their error is of the order of h^2 = 1e-8 of the response, and of the rounding
        // 1e-16 / h = 1e-12 of the closure's own size 1e-3.
        const double h = 1e-4 * model.normalisation.input_scale[i];
        const std::size_t at = (split.times() - 1 - lag) * 6 + i;
        std::vector<double> more = y, less = y;
        more[at] += h, less[at] -= h;
        const double expected = (closure_after(model, more, j) - closure_after(model, less, j)) / (2 * h);
        const double found = response.mean[(lag * 6 + j) * 6 + i];
        EXPECT_NEAR(found, expected, 1e-6 * std::abs(expected) + 1e-11) << lag << " " << i << " " << j;
        EXPECT_NEAR(response.rms[(lag * 6 + j) * 6 + i], std::abs(found), 1e-15);
      }
}
INSTANTIATE_TEST_SUITE_P(MambaAndGru, MemoryOfKind, testing::Values(0, 1));

TEST(Memory, OfAGruThatForgetsByHalfEachStepIsGeometric) {
  // Update gate z = sigmoid(0) = 1/2, candidate from the input alone: h_t = h_{t-1}/2 + n_t/2, where
  // n = tanh(W x). For small weights W the network is linear and its response falls by half each step.
  Model model = tiny().model(1);
  const ParameterLayout layout(model.shape);
  const std::size_t width = model.shape.d_model;
  for (const TensorSpec& tensor : layout.tensors()) {
    double* values = model.parameters.data() + tensor.offset;
    if (tensor.name.find("weight_hh") != std::string::npos ||
        tensor.name.find("bias_ih") != std::string::npos || tensor.name.find("bias_hh") != std::string::npos)
      std::fill_n(values, tensor.size, 0.0);
    if (tensor.name.find("weight_ih") != std::string::npos) {  // (3 width, width): reset, update, candidate
      std::fill_n(values, 2 * width * width, 0.0);
      for (std::size_t k = 2 * width * width; k < tensor.size; ++k) values[k] *= 1e-3;
    }
  }
  MemoryOptions options;
  options.trajectories = 1;
  options.times = 1;
  options.longest = 0.1;
  const MemoryResponse response = memory_response(model, tiny().open(), options);
  // An impulse at lag l acts through the hidden state alone for l > 0; around one trajectory the ratio of
  // consecutive lags is 1/2 times that of the slopes at two neighbouring times, which differ by their
  // change over a step of 0.01: a few per cent.
  for (std::size_t l = 1; l + 1 < response.lags; ++l)
    EXPECT_NEAR(response.strength(0)[l + 1] / response.strength(0)[l], 0.5, 0.05) << l;
}

TEST(MemoryTime, IsTheLastLagAboveTheThreshold) {
  MemoryResponse response{{"c"}, {"y"}, 0.1, 5, 1, {1, 0.5, 0.02, 0.005, 0.001}, {}, {2.0}, 0.01};
  EXPECT_DOUBLE_EQ(response.memory_time(0).value(), 0.2);
  response.rms.back() = 0.1;  // still remembered at the longest lag
  EXPECT_FALSE(response.memory_time(0));
  response.rms = {1, 0, 0, 0, 0};
  EXPECT_DOUBLE_EQ(response.memory_time(0).value(), 0.0);
}

TEST(MemoryFigure, ShowsTheKernelInTheUnitsOfTheResponse) {
  // C_1 = int K(s) x_1(t - s) ds with x_1 = y_1 e: an impulse of the size of y_1 gives K e s_1 per time.
  MemoryResponse response{
      {"m1_phi", "m1_psi"}, {"phi1", "psi1"}, 0.5, 3, 1, std::vector<double>(12, 0.25), {}, {2.0, 3.0}, 0.01};
  MemoryKernel kernel;
  kernel.variables = 2;
  kernel.degree = 1;
  kernel.step = 0.5;
  kernel.times = 4;
  kernel.degrees = {0, 0, 1, 0, 0, 1};  // 1, x_1, x_2
  kernel.values.assign(3 * 2 * 4, 0.0);
  kernel.values[(1 * 2 + 0) * 4 + 1] = -0.125;  // K_{x_1, C_1}(0.5)
  const report::Figure figure = report::memory_figure({{"mac", response}}, &kernel, "1");
  const auto& curves = figure.panels.at(0).axes.at(0).curves;
  ASSERT_EQ(curves.size(), 2u);
  // sqrt((0.25 * 2)^2 + (0.25 * 3)^2) / 0.5 at the lags 0.5 and 1
  EXPECT_EQ(curves[0].x, (std::vector<double>{0.5, 1.0}));
  EXPECT_DOUBLE_EQ(curves[0].y[0], std::sqrt(0.25 + 0.5625) / 0.5);
  EXPECT_EQ(curves[1].model, "linear_memory");
  EXPECT_EQ(curves[1].x, (std::vector<double>{0, 0.5, 1.0}));  // as far as the response is known
  EXPECT_DOUBLE_EQ(curves[1].y[1], 0.125 * 2.0 / std::exp(-1.0));
}

TEST(Memory, IsTheSameForAnyNumberOfThreads) {
  MemoryOptions one, four;
  one.threads = 1;
  four.threads = 4;
  EXPECT_EQ(memory_response(tiny().model(0), tiny().open(), one).rms,
            memory_response(tiny().model(0), tiny().open(), four).rms);
}

TEST(Memory, RefusesLagsLongerThanTheData) {
  MemoryOptions options;
  options.longest = 5;
  EXPECT_THROW(memory_response(tiny().model(0), tiny().open(), options), UsageError);
}

TEST(Memory, RefusesAModelOfOtherDataAsARolloutDoes) {
  Model other = tiny().model(0);
  other.system = "kdv";
  EXPECT_THROW(memory_response(other, tiny().open(), {}), UsageError);
  other = tiny().model(0);
  *other.closure_step *= 2;
  EXPECT_THROW(memory_response(other, tiny().open(), {}), UsageError) << "lags would be twice as long";
}

TEST(DiagnoseMemory, PrintsTheMemoryTimesAndWritesThemAsJson) {
  const ScratchFolder folder;
  save_model(tiny().model(0), folder.path() / "mac.safetensors");
  const auto result = test::run_program(fmt::format(
      "diagnose memory {} --data {} --longest-lag 0.1 --json {} -o {}", folder.file("mac.safetensors"),
      tiny().folder.file("data.h5"), folder.file("memory.json"), folder.file("memory.pdf")));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("memory time"), std::string::npos);
  const auto json = nlohmann::json::parse(test::read_bytes(folder.file("memory.json")));
  EXPECT_EQ(json.at("lag").size(), 11u);
  EXPECT_EQ(json.at("rms").size(), 11u);
  EXPECT_EQ(json.at("rms")[0].size(), 6u);
  EXPECT_EQ(json.at("rms")[0][0].size(), 6u);
  EXPECT_TRUE(test::read_bytes(folder.file("memory.pdf")).starts_with("%PDF-"));
}

TEST(Diagnose, StillNeedsAnExperiment) { EXPECT_EQ(test::run_program("diagnose").exit_code, 2); }

}  // namespace
}  // namespace mac
