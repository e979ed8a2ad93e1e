// What the engines of the full library ask of a kind of layer: see layer.hpp.
#pragma once

#include <memory>
#include <type_traits>

#include "network/cpu/sequence_blocks.hpp"
#include "network/kinds/layer.hpp"
#include "network/onnx/layer_graph.hpp"
#include "network/reference_layer.hpp"

namespace mac {

class LayerEngines {
 public:
  virtual ~LayerEngines() = default;

  virtual std::unique_ptr<reference::ReferenceLayer<float>> reference(const NetworkShape& shape,
                                                                      std::type_identity<float>) const = 0;
  virtual std::unique_ptr<reference::ReferenceLayer<double>> reference(const NetworkShape& shape,
                                                                       std::type_identity<double>) const = 0;

  /// The blocks of a sequence engine whose weights lie, and will lie, where `weights` says; they are not read
  /// before take_weights(). Kernels and arena live as long as the blocks.
  virtual std::unique_ptr<cpu::SequenceBlocks<float>> sequence(
      const NetworkShape& shape, const cpu::Kernels<float>& kernels, cpu::Arena<float>& arena,
      std::span<const BlockParameters<const float>> weights) const = 0;
  virtual std::unique_ptr<cpu::SequenceBlocks<double>> sequence(
      const NetworkShape& shape, const cpu::Kernels<double>& kernels, cpu::Arena<double>& arena,
      std::span<const BlockParameters<const double>> weights) const = 0;

  /// One step of a layer as ONNX nodes. u (batch, d_model) gives its output; `state` becomes the next one.
  /// The names of the layer's weights begin with `prefix`.
  virtual onnx::Value step(onnx::LayerGraph& graph, const NetworkShape& shape, const onnx::Value& u,
                           const std::string& prefix, onnx::Value& state) const = 0;
};

/// By a kind's own Activations<T> with reference_forward and reference_backward, Block<T> (of
/// cpu/sequence_blocks.hpp) and graph_step.
template <class Sizes, template <class> class Activations, template <class> class Block>
class LayerEnginesOf final : public LayerEngines {
 public:
  std::unique_ptr<reference::ReferenceLayer<float>> reference(const NetworkShape& shape,
                                                              std::type_identity<float>) const override {
    return std::make_unique<reference::ReferenceLayerOf<float, Sizes, Activations<float>>>(shape);
  }
  std::unique_ptr<reference::ReferenceLayer<double>> reference(const NetworkShape& shape,
                                                               std::type_identity<double>) const override {
    return std::make_unique<reference::ReferenceLayerOf<double, Sizes, Activations<double>>>(shape);
  }
  std::unique_ptr<cpu::SequenceBlocks<float>> sequence(
      const NetworkShape& shape, const cpu::Kernels<float>& kernels, cpu::Arena<float>& arena,
      std::span<const BlockParameters<const float>> weights) const override {
    return std::make_unique<cpu::SequenceBlocksOf<float, Sizes, Block<float>>>(shape, kernels, arena,
                                                                               weights);
  }
  std::unique_ptr<cpu::SequenceBlocks<double>> sequence(
      const NetworkShape& shape, const cpu::Kernels<double>& kernels, cpu::Arena<double>& arena,
      std::span<const BlockParameters<const double>> weights) const override {
    return std::make_unique<cpu::SequenceBlocksOf<double, Sizes, Block<double>>>(shape, kernels, arena,
                                                                                 weights);
  }
  onnx::Value step(onnx::LayerGraph& graph, const NetworkShape& shape, const onnx::Value& u,
                   const std::string& prefix, onnx::Value& state) const override {
    return graph_step(graph, Sizes(shape), u, prefix, state);
  }
};

const LayerEngines& engines_of(LayerKind kind);

// Each kind defines its own.
#define MAC_KIND(kind)           \
  namespace kind {               \
  const LayerEngines& engines(); \
  }
MAC_LAYER_KINDS(MAC_KIND)
#undef MAC_KIND

}  // namespace mac
