#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mac/error.hpp>
#include <mac/model.hpp>

#include "io/safetensors_builder.hpp"
#include "support/files.hpp"

namespace mac::test {
namespace {

const NetworkShape mamba{LayerKind::mamba, 3, 2, 5, 2, 4};

std::vector<NetworkShape> one_of_each_kind() {
  std::vector<NetworkShape> shapes;
  for (const LayerKind kind : layer_kinds) shapes.push_back({kind, 3, 2, 5, 2, has_states(kind) ? 4u : 0u});
  return shapes;
}

Model example(const NetworkShape& shape, Dtype dtype) {
  Model model;
  model.shape = shape;
  model.parameters = initial_parameters(shape, 1);
  model.dtype = dtype;
  model.normalisation = {{0.1, 0.2, 0.3}, {1, 2, 1.0 / 3}, {-1e-9, 4}, {1e-3, 7}};
  model.system = "power_grid";
  model.input_names = {"omega1", "omega2", "alpha2"};
  model.output_names = {"C1", "C2"};
  model.closure_targets = {2, 0};
  model.closure_step = 0.1 + 0.2;
  model.held = HeldClosure{Hold::linear, Target::mean};
  model.recipe = "fast";
  model.provenance = {{"experiment", "[system]\nname = \"power_grid\"\n"}, {"seed", "7"}};
  return model;
}

TEST(Model, ReadsBackWhatWasSaved) {
  for (const NetworkShape& shape : one_of_each_kind())
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const Model model = example(shape, dtype);
      const ScratchFolder folder;
      save_model(model, folder.path() / "model.safetensors");
      const Model back = load_model(folder.path() / "model.safetensors");
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(back.dtype, dtype);
      if (dtype == Dtype::f64)
        EXPECT_EQ(back.parameters, model.parameters);
      else
        EXPECT_EQ(parameters_as<float>(back), parameters_as<float>(model));
      EXPECT_EQ(back.normalisation, model.normalisation);
      EXPECT_EQ(back.system, model.system);
      EXPECT_EQ(back.input_names, model.input_names);
      EXPECT_EQ(back.output_names, model.output_names);
      EXPECT_EQ(back.closure_targets, model.closure_targets);
      EXPECT_EQ(back.precision(), dtype == Dtype::f64 ? Precision::float64 : Precision::float32);
      EXPECT_EQ(back.closure_step, model.closure_step);
      EXPECT_EQ(back.held->hold, Hold::linear);
      EXPECT_EQ(back.held->target, Target::mean);
      EXPECT_EQ(back.recipe, model.recipe);
      EXPECT_TRUE(back.program.starts_with("mac "));
      EXPECT_EQ(back.provenance, model.provenance);
      EXPECT_EQ(folder.count(), 1u);
    }
}

TEST(Model, IsReadOffTheTensorsOfAFileWithoutMetadata) {
  std::vector<NetworkShape> shapes = one_of_each_kind();
  shapes.push_back({LayerKind::mamba, 8, 8, 17, 12, 1});
  for (const NetworkShape& shape : shapes) {
    CraftedModel crafted(shape);
    std::ranges::reverse(crafted.tensors);  // a state_dict's order is its own
    const Model bare = model_from(Safetensors::parse(crafted.bytes(), "bare"));
    EXPECT_EQ(bare.shape, shape);
    EXPECT_EQ(bare.normalisation, Normalisation::identity(shape));
    EXPECT_FALSE(bare.held || bare.closure_step);
    crafted.metadata["format"] = "pt";  // what PyTorch's users often add
    const Model tagged = model_from(Safetensors::parse(crafted.bytes(), "tagged"));
    EXPECT_EQ(tagged.parameters, bare.parameters);
  }
}

struct Spoiled {
  const char* name;
  std::function<void(CraftedModel&)> spoil;
  const char* message;
};

void PrintTo(const Spoiled& model, std::ostream* out) { *out << model.name; }

std::function<void(CraftedModel&)> metadata(const std::string& key, const std::string& value) {
  return [=](CraftedModel& model) { model.metadata[key] = value; };
}

std::vector<Spoiled> spoiled_models() {
  const auto set = [](const std::string& tensor, float value) {
    return [=](CraftedModel& model) { model.at(tensor).values.back() = value; };
  };
  const auto reshape = [](const std::string& tensor, std::vector<std::size_t> shape) {
    return [=](CraftedModel& model) { model.at(tensor).shape = shape; };
  };
  const auto remove = [](const std::string& tensor) {
    return
        [=](CraftedModel& model) { std::erase_if(model.tensors, [&](auto& t) { return t.name == tensor; }); };
  };
  const auto resize = [](const std::string& tensor, std::vector<std::size_t> shape, std::size_t count) {
    return [=](CraftedModel& model) {
      model.at(tensor).shape = shape;
      model.at(tensor).values.resize(count);
    };
  };
  return {
      {"NanWeight", set("blocks.1.mamba.D", NAN), "tensor 'blocks.1.mamba.D' is nan at element 9"},
      {"InfiniteWeight", set("norm.bias", INFINITY), "tensor 'norm.bias' is inf at element 4"},
      {"MissingTensor", remove("blocks.1.mamba.conv1d.bias"), "has no tensor 'blocks.1.mamba.conv1d.bias'"},
      {"MissingInput", remove("input_proj.weight"), "has no tensor 'input_proj.weight'"},
      {"MissingBlockNorm", remove("blocks.0.norm.weight"), "has no tensor 'blocks.0.norm.weight'"},
      {"MissingLayers", remove("blocks.0.mamba.in_proj.weight"), "is not a closure network"},
      {"ExtraTensor",
       [](CraftedModel& model) {
         model.tensors.push_back({"extra", {1}, {0}});
       },
       "tensor 'extra' does not belong to this network"},
      {"BlockBehindAGap",
       [](CraftedModel& model) {
         model.tensors.push_back({"blocks.7.norm.weight", {1}, {0}});
       },
       "tensor 'blocks.7.norm.weight' does not belong to this network"},
      {"PrefixedNames",
       [](CraftedModel& model) {
         for (auto& t : model.tensors) t.name = "model." + t.name;
       },
       "is not a closure network"},
      {"TransposedWeight", reshape("input_proj.weight", {3, 5}), "has shape (5): expected (3)"},
      {"FlattenedWeight", reshape("input_proj.weight", {15}),
       "tensor 'input_proj.weight' has shape (15): expected 2 dimensions"},
      {"OtherInnerSize", resize("blocks.1.mamba.D", {9}, 9),
       "tensor 'blocks.1.mamba.D' has shape (9): expected (10)"},
      {"OtherStateSize", resize("blocks.1.mamba.A_log", {10, 3}, 30), "has shape (10, 3): expected (10, 4)"},
      {"NoOutputs", resize("output_proj.2.weight", {0, 5}, 0), "network size d_out is 0"},
      {"NewerFormat", metadata("format_version", "3"),
       "metadata 'format_version' is '3', this program reads '1' and '2'"},
      {"OtherFrame", metadata("frame", "moving"), "metadata 'frame' is 'moving': expected 'initial'"},
      {"FrameOfNoModes", metadata("frame", "initial"), "metadata 'frame' is that of Fourier modes"},
      {"OtherKind", metadata("kind", "gru"), "metadata 'kind' is 'gru', the tensors say 'mamba'"},
      {"OtherModelSize", metadata("d_model", "6"), "metadata 'd_model' is '6', the tensors say '5'"},
      {"OtherBlockCount", metadata("n_blocks", "3"), "metadata 'n_blocks' is '3', the tensors say '2'"},
      {"OtherConvolution", metadata("d_conv", "3"), "metadata 'd_conv' is '3', the tensors say '4'"},
      {"NamesOfOtherCount", metadata("input_names", R"(["a","b"])"),
       "metadata 'input_names' has 2 strings: expected 3"},
      {"NamesNotAList", metadata("output_names", "a,b"),
       "metadata 'output_names' is not a JSON array of strings"},
      {"NestedList", metadata("output_names", R"([["a"],["b"]])"),
       "metadata 'output_names' is not a JSON array"},
      {"PartOfANormalisation", metadata("input_mean", "[0,0,0]"), "metadata 'input_scale' is missing"},
      {"ShortNormalisation", metadata("output_mean", "[0]"),
       "metadata 'output_mean' has 1 numbers: expected 2"},
      {"ZeroScale",
       [](CraftedModel& model) {
         model.metadata["input_mean"] = model.metadata["input_scale"] = "[1,0,1]";
         model.metadata["output_mean"] = model.metadata["output_scale"] = "[1,1]";
       },
       "metadata 'input_scale' has a scale that is not positive"},
      {"TargetsOfOtherCount", metadata("closure_targets", "[0]"),
       "metadata 'closure_targets' has 1 integers from 0 on: expected 2"},
      {"TargetBeyondTheVariables", metadata("closure_targets", "[0,3]"),
       "metadata 'closure_targets' has a 3: expected 0 to 2"},
      {"NegativeTarget", metadata("closure_targets", "[0,-1]"),
       "metadata 'closure_targets' is not a JSON array of integers"},
      {"FractionalTarget", metadata("closure_targets", "[0,1.5]"),
       "metadata 'closure_targets' is not a JSON array of integers"},
      {"NegativeStep", metadata("closure_step", "-0.1"),
       "metadata 'closure_step' is '-0.1': expected a positive"},
      {"StepWithUnit", metadata("closure_step", "1s"),
       "metadata 'closure_step' is '1s': expected a positive number"},
      {"UnknownHold", metadata("hold", "cubic"), "metadata 'hold' is wrong"},
      {"UnknownTarget", metadata("target", "median"), "metadata 'target' is wrong"},
  };
}

class SpoiledModel : public testing::TestWithParam<Spoiled> {};

TEST_P(SpoiledModel, IsRefusedWithItsOwnMessage) {
  CraftedModel crafted(mamba);
  EXPECT_NO_THROW(model_from(Safetensors::parse(crafted.bytes(), "good")));
  GetParam().spoil(crafted);
  const auto file = Safetensors::parse(crafted.bytes(), "spoiled.safetensors");
  try {
    model_from(file);
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("spoiled.safetensors: ")) << message;
    EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(Model, SpoiledModel, testing::ValuesIn(spoiled_models()),
                         [](const auto& info) { return info.param.name; });

TEST(Model, WithoutClosureTargetsIsGuessedByNamesThenInOrder) {
  Model model = example(mamba, Dtype::f32);
  EXPECT_EQ(find_closure_targets(model), (std::vector<std::size_t>{2, 0})) << "the file says";
  model.closure_targets.clear();
  EXPECT_TRUE(find_closure_targets(model).empty()) << "2 components of 3 variables, no telling names";
  model.output_names = {"C_alpha2", "C_omega2"};
  EXPECT_EQ(find_closure_targets(model), (std::vector<std::size_t>{2, 1}));
  model.output_names.clear();
  model.shape.d_out = 3;
  EXPECT_EQ(find_closure_targets(model), (std::vector<std::size_t>{0, 1, 2}));
}

TEST(Model, OfIntegersIsRefused) {
  SafetensorsWriter writer;
  const CraftedModel crafted(mamba);
  for (const CraftedTensor& tensor : crafted.tensors)
    writer.add(tensor.name, tensor.shape, std::vector<std::int64_t>(tensor.values.size()));
  EXPECT_THROW(model_from(Safetensors::parse(writer.bytes(), "integers")), Error);
}

TEST(Model, ThatDivergedIsNotSaved) {
  Model model = example(mamba, Dtype::f32);
  model.parameters[3] = NAN;
  const ScratchFolder folder;
  EXPECT_THROW(save_model(model, folder.path() / "model"), Error);
  EXPECT_EQ(folder.count(), 0u);
}

}  // namespace
}  // namespace mac::test
