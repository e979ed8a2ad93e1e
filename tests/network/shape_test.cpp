#include <gtest/gtest.h>

#include <mac/error.hpp>
#include <mac/network.hpp>
#include <mac/paper_networks.hpp>
#include <set>

#include "network/kinds/layer.hpp"

namespace mac {
namespace {

TEST(NetworkShape, HasTheParameterCountsOfThePaper) {
  EXPECT_EQ(parameter_count({LayerKind::mamba, 6, 6, 22, 4, 12}), 20906u);  // Burgers
  EXPECT_EQ(parameter_count({LayerKind::gru, 6, 6, 28, 4, 0}), 20950u);
  EXPECT_EQ(parameter_count({LayerKind::mamba, 8, 8, 63, 3, 16}), 100871u);  // Lorenz '96
  EXPECT_EQ(parameter_count({LayerKind::gru, 8, 8, 62, 4, 0}), 99332u);
  EXPECT_EQ(parameter_count({LayerKind::mamba, 3, 2, 10, 3, 16}), 5472u);  // power grid
  EXPECT_EQ(parameter_count({LayerKind::gru, 3, 2, 16, 3, 0}), 5394u);
  EXPECT_EQ(parameter_count({LayerKind::mamba, 6, 6, 24, 2, 12}), 12486u);  // KdV
  EXPECT_EQ(parameter_count({LayerKind::gru, 6, 6, 30, 2, 0}), 12666u);
}

TEST(ParameterLayout, FillsTheFlatArrayWithoutGapsInAFixedOrder) {
  const ParameterLayout layout({LayerKind::mamba, 6, 6, 22, 4, 12});
  std::size_t offset = 0;
  for (const TensorSpec& tensor : layout.tensors()) {
    EXPECT_EQ(tensor.offset, offset) << tensor.name;
    std::size_t size = 1;
    for (const std::size_t extent : tensor.shape) size *= extent;
    EXPECT_EQ(tensor.size, size) << tensor.name;
    offset += size;
  }
  EXPECT_EQ(layout.size(), offset);
  EXPECT_EQ(layout.tensors().size(), 52u);
  EXPECT_EQ(layout.tensors().front().name, "input_proj.weight");
  EXPECT_EQ(layout.tensors().back().name, "output_proj.2.bias");
  EXPECT_EQ(layout.at("blocks.3.mamba.conv1d.weight").shape, (std::vector<std::size_t>{44, 1, 4}));
  EXPECT_EQ(layout.at("blocks.0.mamba.x_proj.weight").shape, (std::vector<std::size_t>{2 + 24, 44}));
  EXPECT_THROW(layout.at("blocks.4.mamba.D"), Error);
}

TEST(NetworkShape, CountsTheStateOfOneSample) {
  EXPECT_EQ((NetworkShape{LayerKind::mamba, 6, 6, 22, 4, 12}).state_size(), 4u * (3 + 12) * 44);
  EXPECT_EQ((NetworkShape{LayerKind::gru, 6, 6, 28, 4, 0}).state_size(), 4u * 28);
  EXPECT_EQ((NetworkShape{LayerKind::mlp, 6, 6, 34, 4, 0}).state_size(), 0u);
  EXPECT_EQ((NetworkShape{LayerKind::lstm, 6, 6, 28, 3, 0}).state_size(), 3u * 2 * 28);
  EXPECT_EQ((NetworkShape{LayerKind::oscillator, 6, 6, 22, 4, 6}).state_size(), 4u * (3 + 2 * 6) * 44);
}

TEST(NetworkShape, RefusesSizesThatCannotBeMeant) {
  EXPECT_NO_THROW(validate({LayerKind::mamba, 1, 1, 1, 1, 1}));
  EXPECT_THROW(validate({LayerKind::mamba, 0, 1, 1, 1, 1}), UsageError);
  EXPECT_THROW(validate({LayerKind::mamba, 1, 0, 1, 1, 1}), UsageError);
  EXPECT_THROW(validate({LayerKind::mamba, 1, 1, 0, 1, 1}), UsageError);
  EXPECT_THROW(validate({LayerKind::mamba, 1, 1, 1, 0, 1}), UsageError);
  EXPECT_THROW(validate({LayerKind::mamba, 1, 1, 1, 1, 0}), UsageError);
  EXPECT_THROW(validate({LayerKind::gru, 1, 1, 1, 1, 4}), UsageError);
  EXPECT_THROW(validate({LayerKind::gru, 1, 1, std::size_t(-1), 1, 0}), UsageError);
}

TEST(LayerKind, HasANameThatReadsBack) {
  for (const LayerKind kind : layer_kinds) EXPECT_EQ(layer_kind_from(to_string(kind)), kind);
}

TEST(LayerKind, AnUnknownOneIsAnsweredWithAllThatThereAre) {
  try {
    layer_kind_from("transformer");
    FAIL();
  } catch (const UsageError& error) {
    const std::string sentence = error.what();
    for (const std::string& name : layer_kind_names()) EXPECT_NE(sentence.find(name), std::string::npos);
  }
}

/// A file's kind is known by the first tensor of its layers.
TEST(LayerKind, HasATensorThatNoOtherHas) {
  std::set<std::string> firsts;
  for (const LayerKind kind : layer_kinds) firsts.insert(layer_of(kind).tensors({}).front().name);
  EXPECT_EQ(firsts.size(), std::size(layer_kinds));
}

TEST(PaperNetworks, AreOneOfEachKindForEachSystemOfAboutTheSameSize) {
  for (const std::string system : {"burgers", "kdv", "lorenz96", "power_grid"}) {
    const auto mamba = static_cast<double>(parameter_count(paper_network(system, LayerKind::mamba)));
    for (const LayerKind kind : layer_kinds) {
      const NetworkShape shape = paper_network(system, kind);
      EXPECT_EQ(shape.kind, kind);
      EXPECT_NEAR(static_cast<double>(parameter_count(shape)), mamba, 0.02 * mamba)
          << system << " " << to_string(kind);
    }
  }
}

}  // namespace
}  // namespace mac
