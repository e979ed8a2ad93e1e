// Exported networks in a real onnxruntime (npm's onnxruntime-web under Node), beside the step engine.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <mac/error.hpp>
#include <mac/model.hpp>
#include <mac/onnx.hpp>
#include <mac/paper_networks.hpp>
#include <mac/random.hpp>

#include "network/onnx/protobuf.hpp"
#include "support/files.hpp"
#include "support/program.hpp"

namespace mac::test {
namespace {

std::string hex(const protobuf::Message& message) {
  std::string text;
  for (const char byte : message.bytes()) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

TEST(Protobuf, WritesTheExamplesOfItsSpecification) {
  using protobuf::Message;
  EXPECT_EQ(hex(Message().integer(1, 150)), "089601");
  EXPECT_EQ(hex(Message().integer(1, -2)), "08feffffffffffffffff01");
  EXPECT_EQ(hex(Message().text(2, "testing")), "120774657374696e67");
  EXPECT_EQ(hex(Message().message(3, Message().integer(1, 150))), "1a03089601");
  EXPECT_EQ(hex(Message().real(2, 1.0F)), "150000803f");
  EXPECT_EQ(hex(Message().integer(20, 2)), "a00102");  // a tag of two bytes
}

/// Weights and a normalisation that are nowhere 0 or 1: a term that is missing or wrong shows.
Model some_model(const NetworkShape& shape, std::size_t noise = 0) {
  Model model;
  model.shape = shape;
  model.noise.channels = noise;
  if (noise > 0) model.closure_step = 0.1;
  model.parameters = initial_parameters(shape, 5);
  RandomStream random(5, Purpose::noise, 0);
  for (double& value : model.parameters) value += 0.1 * random.normal();
  model.normalisation = Normalisation::identity(shape, model.noise);
  for (std::size_t i = 0; i < model.input_size(); ++i) {
    model.normalisation.input_mean[i] = 0.1 * static_cast<double>(i + 1);
    model.normalisation.input_scale[i] = 1.0 / static_cast<double>(i + 2);
  }
  for (std::size_t i = 0; i < shape.d_out; ++i) {
    model.normalisation.output_mean[i] = -0.2 * static_cast<double>(i + 1);
    model.normalisation.output_scale[i] = 3.0 + static_cast<double>(i);
  }
  return model;
}

struct Steps {
  std::vector<double> closure;  // (steps, batch, d_out)
  std::vector<float> state;     // (batch, state_size) after the last
};

std::vector<double> some_inputs(std::size_t count) {
  RandomStream random(1, Purpose::test_data, 0);
  std::vector<double> x(count);
  for (double& value : x) value = random.normal();
  return x;
}

Steps engine_steps(const Model& model, std::size_t steps, std::size_t batch, const std::vector<double>& x) {
  const auto& [in_mean, in_scale, out_mean, out_scale] = model.normalisation;
  const std::size_t d = model.shape.d_in, inputs = model.input_size(), c = model.shape.d_out;
  const StepEngine<float> engine(model.shape, parameters_as<float>(model));
  Steps out{{}, std::vector<float>(batch * engine.state_size())};
  std::vector<float> now(batch * d), y(batch * c);
  for (std::size_t n = 0; n < steps; ++n) {
    for (std::size_t i = 0; i < now.size(); ++i)
      now[i] = static_cast<float>(i % d < inputs ? (x[n * now.size() + i] - in_mean[i % d]) / in_scale[i % d]
                                                 : x[n * now.size() + i]);
    engine.step(batch, now.data(), y.data(), out.state.data());
    for (std::size_t i = 0; i < y.size(); ++i)
      out.closure.push_back(out_mean[i % c] + out_scale[i % c] * static_cast<double>(y[i]));
  }
  return out;
}

struct Case {
  NetworkShape shape;
  std::size_t steps, batch, noise = 0;
  std::vector<double> inputs() const { return some_inputs(steps * batch * shape.d_in); }
};

/// Exports every network and runs all of them in one onnxruntime.
std::vector<Steps> runtime_steps(const std::vector<Case>& cases) {
  const ScratchFolder folder;
  const auto file = [&](std::size_t i, const char* name) {
    return folder.file(fmt::format("{}.{}", i, name));
  };
  std::string command = "node " MAC_SOURCE_FOLDER "/tests/onnx/run_steps.cjs";
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [shape, steps, batch, noise] = cases[i];
    save_model(some_model(shape, noise), file(i, "safetensors"));
    const auto exported =
        run_program(fmt::format("export {} -o {}", file(i, "safetensors"), file(i, "onnx")));
    EXPECT_EQ(exported.exit_code, 0) << exported.output;
    const std::vector<double> x = cases[i].inputs();
    write_bytes(file(i, "x"), {reinterpret_cast<const char*>(x.data()), x.size() * sizeof(double)});
    command += fmt::format(" {} {} {} {} {} {}+{} {}", file(i, "onnx"), file(i, "x"), file(i, "y"), steps,
                           batch, shape.d_in - noise, noise, shape.state_size());
  }
  const auto ran = run_command(command + " 2>&1");
  EXPECT_EQ(ran.exit_code, 0) << ran.output;

  std::vector<Steps> all;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [shape, steps, batch, noise] = cases[i];
    const std::string bytes = read_bytes(file(i, "y"));
    Steps out{std::vector<double>(steps * batch * shape.d_out),
              std::vector<float>(batch * shape.state_size())};
    const std::size_t closures = out.closure.size() * sizeof(double),
                      states = out.state.size() * sizeof(float);
    if (bytes.size() != closures + states)
      throw Error("onnxruntime gave {} bytes, not {}", bytes.size(), closures + states);
    std::memcpy(out.closure.data(), bytes.data(), closures);
    if (states > 0) std::memcpy(out.state.data(), bytes.data() + closures, states);
    all.push_back(std::move(out));
  }
  return all;
}

template <class T>
double relative_distance(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.empty() && b.empty()) return 0;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double distance = static_cast<double>(a.at(i)) - static_cast<double>(b[i]);
    difference += distance * distance;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / norm);
}

bool has_onnxruntime() {
  return std::filesystem::exists(MAC_SOURCE_FOLDER "/tests/onnx/node_modules/onnxruntime-web") &&
         run_command("node --version").exit_code == 0;
}

TEST(Onnx, RunsInOnnxruntimeAsInTheStepEngineOverManySteps) {
  if (!has_onnxruntime())
    GTEST_SKIP() << "onnxruntime-web is not installed (scripts/setup does it): no exported network was run";
  std::vector<Case> cases{{{LayerKind::mamba, 3, 2, 17, 1, 5}, 20, 1},  // dt_rank 2, one block
                          {{LayerKind::mamba, 8, 8, 40, 3, 16}, 5, 50},
                          {{LayerKind::mamba, 7, 3, 16, 2, 8}, 20, 3, 4}};   // four of the inputs are noise
  cases.push_back({{LayerKind::mamba, 7, 3, 16, 2, 8, 1, true}, 20, 3, 3});  // times deviations
  for (const LayerKind kind : layer_kinds) cases.push_back({paper_network("burgers", kind), 300, 3});
  const std::vector<Steps> found = runtime_steps(cases);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [shape, steps, batch, noise] = cases[i];
    SCOPED_TRACE(fmt::format("{} {} x{}", to_string(shape.kind), shape.d_model, batch));
    const Steps expected = engine_steps(some_model(shape, noise), steps, batch, cases[i].inputs());
    // Both are float32 networks that sum in different orders: the bound that every float engine here is held
    // to against float64 is 2e-6, so two of them may be twice that apart.
    EXPECT_LT(relative_distance(found[i].closure, expected.closure), 4e-6);
    EXPECT_LT(relative_distance(found[i].state, expected.state), 4e-6);
  }
}

TEST(Onnx, TheSameModelGivesTheSameBytes) {
  const Model model = some_model({LayerKind::mamba, 2, 1, 5, 2, 3});
  EXPECT_EQ(onnx_bytes(model), onnx_bytes(model));
}

TEST(ExportCommand, NamesAFileThatIsNoNetwork) {
  const ScratchFolder folder;
  auto result = run_program(fmt::format("export {} -o {}", folder.file("none"), folder.file("step.onnx")));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("none: does not exist"), std::string::npos) << result.output;

  write_bytes(folder.file("wilks.h5"), std::string("\x89HDF\r\n\x1a\n and so on"));
  result = run_program(fmt::format("export {} -o {}", folder.file("wilks.h5"), folder.file("step.onnx")));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("wilks.h5: is an HDF5 file"), std::string::npos) << result.output;

  write_bytes(folder.file("text.safetensors"), "not a model at all");
  result =
      run_program(fmt::format("export {} -o {}", folder.file("text.safetensors"), folder.file("step.onnx")));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("text.safetensors"), std::string::npos) << result.output;
  EXPECT_FALSE(std::filesystem::exists(folder.file("step.onnx")));
}

TEST(ExportCommand, NamesAnOutputThatCannotBeWritten) {
  const ScratchFolder folder;
  save_model(some_model({LayerKind::gru, 2, 1, 5, 2, 0}), folder.file("m"));
  const auto result =
      run_program(fmt::format("export {} -o {}", folder.file("m"), folder.file("missing/step.onnx")));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("missing"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace mac::test
