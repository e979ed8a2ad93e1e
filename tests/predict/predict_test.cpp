// mac predict and mac info on networks, sequences and data files, as a user runs them.
#include "predict/predict.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mac/data.hpp>
#include <mac/error.hpp>
#include <mac/model.hpp>
#include <nlohmann/json.hpp>

#include "io/hdf5.hpp"
#include "support/files.hpp"
#include "support/program.hpp"

namespace mac::test {
namespace {

Safetensors golden(const std::string& name) {
  return Safetensors::read(std::string(MAC_TEST_DATA) + "/" + name + ".safetensors");
}

/// The network of a golden file.
Model golden_model(const Safetensors& file) {
  const auto size = [&](const char* key) { return std::stoul(file.metadata().at(key)); };
  Model model;
  model.shape = {layer_kind_from(file.metadata().at("kind")),
                 size("d_in"),
                 size("d_out"),
                 size("d_model"),
                 size("n_blocks"),
                 size("d_state")};
  const ParameterLayout layout(model.shape);
  for (const TensorSpec& tensor : layout.tensors()) {
    const auto values = file.numbers("weights." + tensor.name);
    model.parameters.insert(model.parameters.end(), values.begin(), values.end());
  }
  model.normalisation = Normalisation::identity(model.shape);
  return model;
}

void write_x(const std::string& path, const std::vector<std::size_t>& shape, const std::vector<double>& x) {
  SafetensorsWriter writer;
  writer.add("x", shape, x);
  writer.write(path);
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a.at(i) - b[i]) * (a.at(i) - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

TEST(Predict, GivesTheGoldenOutputsInEveryEnginePrecisionAndMode) {
  for (const char* name : {"tiny_mamba", "burgers_gru"}) {
    const Safetensors file = golden(name);
    const ScratchFolder folder;
    save_model(golden_model(file), folder.file("model"));
    write_x(folder.file("x"), file.at("x").shape, file.numbers("x"));
    for (const char* engine : {"reference", "cpu"})
      for (const char* precision : {"float32", "float64"})
        for (const char* mode : {"sequence", "step"}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", name, engine, precision, mode));
          const auto result = run_program(
              fmt::format("predict {} --input {} -o {} --engine {} --precision {} --mode {}",
                          folder.file("model"), folder.file("x"), folder.file("y"), engine, precision, mode));
          ASSERT_EQ(result.exit_code, 0) << result.output;
          const Safetensors y = Safetensors::read(folder.file("y"));
          const bool single = std::string(precision) == "float32";
          EXPECT_EQ(y.at("y").shape, file.at("out").shape);
          EXPECT_EQ(y.at("y").dtype, single ? Dtype::f32 : Dtype::f64);
          // As the golden tests: what a float network rounds, and a double one.
          EXPECT_LT(relative_distance(y.numbers("y"), file.numbers("out")), single ? 2e-6 : 1e-12);
        }
  }
}

TEST(Predict, WorksInPhysicalUnits) {
  const Safetensors file = golden("tiny_mamba");
  Model model = golden_model(file);
  const SequenceDims dims{file.at("x").shape[0], file.at("x").shape[1]};
  const Normalisation normalisation{{1, -2, 0.5}, {3, 0.25, 1}, {10, -5}, {0.1, 4}};
  model.normalisation = normalisation;
  std::vector<double> x = file.numbers("x"), expected = file.numbers("out");
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = x[i] * normalisation.input_scale[i % 3] + normalisation.input_mean[i % 3];
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = expected[i] * normalisation.output_scale[i % 2] + normalisation.output_mean[i % 2];
  const PredictOptions options{EngineChoice::reference, Precision::float64, ModeChoice::sequence, 1, true};
  EXPECT_LT(relative_distance(Predictor(model, options)(dims, x), expected), 1e-12);
}

TEST(Predict, GivesTheSameInPiecesOfABatchAndOfASequence) {
  // Longer and wider than what goes through the network at once; the last pieces are incomplete.
  const Model model = golden_model(golden("tiny_gru"));
  const SequenceDims dims{19, 150};
  std::vector<double> x(dims.batch * dims.time * 3);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i));
  const PredictOptions options{EngineChoice::reference, Precision::float64, ModeChoice::sequence, 1, true};
  std::vector<double> expected(dims.batch * dims.time * 2);
  make_reference_engine<double>(model.shape)
      ->forward(model.parameters.data(), dims, x.data(), expected.data());
  EXPECT_EQ(Predictor(model, options)(dims, x), expected);
}

TEST(Predict, RefusesInputThatDoesNotFitTheNetwork) {
  const ScratchFolder folder;
  save_model(golden_model(golden("tiny_mamba")), folder.file("model"));
  const auto output_for = [&](const std::vector<std::size_t>& shape, const std::vector<double>& x) {
    write_x(folder.file("x"), shape, x);
    const auto result = run_program(
        fmt::format("predict {} --input {} -o {}", folder.file("model"), folder.file("x"), folder.file("y")));
    EXPECT_EQ(result.exit_code, 1);
    return result.output;
  };
  EXPECT_NE(output_for({2, 3}, std::vector<double>(6))
                .find("tensor 'x' has 2 dimensions: expected (batch, time, 3)"),
            std::string::npos);
  EXPECT_NE(output_for({1, 1, 4}, std::vector<double>(4))
                .find("tensor 'x' has 4 components: the network has 3 inputs"),
            std::string::npos);
  EXPECT_NE(output_for({0, 1, 3}, {}).find("tensor 'x' is empty"), std::string::npos);
  EXPECT_NE(output_for({1, 2, 3}, {0, 0, 0, 0, NAN, 0})
                .find("tensor 'x' is nan in sample 0 at time index 1, component 1"),
            std::string::npos);
  EXPECT_EQ(folder.count(), 2u);  // the model and x: nothing was written
}

TEST(Predict, ReportsTheDistanceFromTheTrueClosureOfADataFile) {
  const ScratchFolder folder;
  generate(
      Experiment::parse("[system]\nname = \"burgers\"\ngrid = 32\n[data]\ndt = 1e-3\nstride = 10\nseed = 2\n"
                        "[data.test]\ntrajectories = 3\nhorizon = 0.2\n",
                        "study.toml"),
      folder.file("data.h5"), {1, true});
  // A network whose last layer is zero predicts output_mean: zero, so the relative error is exactly one.
  Model model = golden_model(golden("burgers_mamba"));
  const ParameterLayout layout(model.shape);
  for (const char* name : {"output_proj.2.weight", "output_proj.2.bias"}) {
    const TensorSpec& tensor = layout.at(name);
    std::fill_n(model.parameters.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.size, 0.0);
  }
  for (const Target target : {Target::instant, Target::mean}) {
    model.held = HeldClosure{Hold::zero, target};
    save_model(model, folder.file("model"));
    const auto result =
        run_program(fmt::format("predict {} --input {} -o {} --json {}", folder.file("model"),
                                folder.file("data.h5"), folder.file("out.h5"), folder.file("json")));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    const auto json = nlohmann::json::parse(read_bytes(folder.file("json")));
    for (const double error : json["closure_error"]["test"]["relative_error"]) EXPECT_DOUBLE_EQ(error, 1);

    const h5::File out = h5::File::open(folder.file("out.h5"));
    const std::size_t times = target == Target::mean ? 20 : 21;
    EXPECT_EQ(out.dataset("/test/closure").dims(), (std::vector<std::size_t>{3, times, 6}));
    std::vector<double> truth(times * 6);
    const DataFile data = DataFile::open(folder.file("data.h5"));
    if (target == Target::mean)
      data.split("test").read_closure_mean(0, 0, times, truth.data());
    else
      data.split("test").read_closure(0, 0, times, truth.data());
    std::vector<double> written(times * 6);
    out.dataset("/test/true_closure").read({0, 0, 0}, {1, times, 6}, written.data());
    EXPECT_EQ(written, truth);
  }
}

TEST(Predict, RefusesDataThatTheModelIsNotFor) {
  const ScratchFolder folder;
  generate(Experiment::parse("[system]\nname = \"burgers\"\ngrid = 32\n[data]\ndt = 1e-3\nstride = 10\n"
                             "[data.test]\ntrajectories = 1\nhorizon = 0.1\n",
                             "study.toml"),
           folder.file("data.h5"), {1, true});
  Model model = golden_model(golden("burgers_mamba"));
  const auto output = [&](const std::string& system, double step) {
    model.system = system;
    model.closure_step = step;
    save_model(model, folder.file("model"));
    const auto result = run_program(fmt::format("predict {} --input {} -o {}", folder.file("model"),
                                                folder.file("data.h5"), folder.file("out.h5")));
    return fmt::format("{} {}", result.exit_code, result.output);
  };
  const std::string other = output("kdv", 0.01), longer = output("burgers", 0.02);
  EXPECT_TRUE(other.starts_with("2 ")) << other;
  EXPECT_NE(other.find("model: is a closure for kdv, but"), std::string::npos) << other;
  EXPECT_TRUE(longer.starts_with("2 ")) << longer;
  EXPECT_NE(longer.find("was trained for a closure step of 0.02"), std::string::npos) << longer;
  EXPECT_TRUE(output("burgers", 0.01).starts_with("0 "));
}

TEST(Predict, GivesNoErrorForAComponentThatASymmetryKeepsAtZero) {
  const ScratchFolder folder;
  generate(
      Experiment::parse("[system]\nname = \"burgers\"\ngrid = 32\n[data]\ndt = 1e-3\nstride = 10\n"
                        "[data.test]\nhorizon = 0.2\ninitial = { kind = \"fields\", fields = [\"sin\"] }\n",
                        "study.toml"),
      folder.file("data.h5"), {1, true});
  save_model(golden_model(golden("burgers_mamba")), folder.file("model"));
  const auto result =
      run_program(fmt::format("predict {} --input {} -o {} --json {}", folder.file("model"),
                              folder.file("data.h5"), folder.file("out.h5"), folder.file("json")));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("m1_phi                      -"), std::string::npos) << result.output;
  const auto json = nlohmann::json::parse(read_bytes(folder.file("json")));
  const auto& errors = json["closure_error"]["test"]["relative_error"];
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_TRUE(errors[k].is_null()) << "phi of sin x";
    EXPECT_TRUE(errors[k + 3].is_number()) << "psi of sin x";
  }
}

TEST(Info, TellsWhatANetworkIs) {
  const ScratchFolder folder;
  Model model = golden_model(golden("burgers_mamba"));
  model.system = "burgers";
  model.closure_step = 0.01;
  model.provenance["experiment"] = "[system]\nname = \"burgers\"\n";
  model.normalisation.input_mean[0] = 0.125;
  save_model(model, folder.file("model"));
  const auto text = run_program("info " + folder.file("model"));
  EXPECT_EQ(text.exit_code, 0);
  for (const char* part : {"mamba", "20906 (F32)", "closure step", "0.01", "0.125", "name = \"burgers\""})
    EXPECT_NE(text.output.find(part), std::string::npos) << part << "\n" << text.output;

  const auto json = nlohmann::json::parse(run_program("info --json - " + folder.file("model")).output);
  EXPECT_EQ(json["type"], "model");
  EXPECT_EQ(json["parameters"], 20906);
  EXPECT_EQ(json["normalisation"]["input_mean"][0], 0.125);
  EXPECT_EQ(json["provenance"]["experiment"], "[system]\nname = \"burgers\"\n");
}

TEST(Info, ListsTheTensorsOfAnyOtherSafetensorsFile) {
  const auto result = run_program("info " + std::string(MAC_TEST_DATA) + "/tiny_gru.safetensors");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("weights.input_proj.weight"), std::string::npos) << result.output;
}

TEST(Info, RefusesWhatItDoesNotKnow) {
  const ScratchFolder folder;
  write_bytes(folder.file("text"), "this is not a network at all");
  const auto result = run_program("info " + folder.file("text"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("text: is a text file, expected a network"), std::string::npos)
      << result.output;
  EXPECT_EQ(run_program("info " + folder.file("absent")).exit_code, 1);
}

}  // namespace
}  // namespace mac::test
