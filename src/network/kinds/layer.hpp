// What a kind of layer says about itself. A kind is a line in <mac/layer_kinds.hpp> and a folder here:
//
//   KIND/layer.hpp, layer.cpp   sizes, tensors and their first values, state, texts, packed weights: a Layer
//   KIND/reference.hpp          the mathematics, in plain loops
//   KIND/cpu/                   the same in vector lanes: step.cpp for one step, block.hpp for sequences
//   KIND/graph.hpp              one step as operations of a graph: for ONNX, and for derivatives of a step
//   KIND/engines.cpp            all but the steps as LayerEngines (engines.hpp)
//   KIND/cuda/                  on the device: a GeneralLayer (network/cuda/general/layer.hpp), fused kernels or none
//
// The engines ask a kind through these interfaces and know no kind by name. All functions of an interface are
// pure: a kind that lacks one does not compile.
#pragma once

#include <functional>
#include <mac/network.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "network/parameters.hpp"

namespace mac {

namespace cpu {
template <class T>
class Packer;
template <class T>
class StepBlocks;
}  // namespace cpu

namespace derivative {
class Program;
struct Value;
}  // namespace derivative

/// Draws from a tensor's own stream, uniform in [low, high).
using Uniform = std::function<double(double low, double high)>;
/// The first value of element i of a tensor.
using InitialValue = std::function<double(std::size_t i, const Uniform& uniform)>;

InitialValue constant(double value);
/// In ±1/√fan_in, as PyTorch draws the weights and biases of Linear, Conv1d, GRU and LSTM.
InitialValue uniform_for(std::size_t fan_in);

struct LayerTensor {
  std::string name;                // as in a PyTorch state_dict of the same network
  std::vector<std::size_t> shape;  // row-major
  InitialValue initial;
};

/// All tensors of a network in the order of ParameterLayout.
std::vector<LayerTensor> network_tensors(const NetworkShape& shape);

/// A dimension of a tensor.
struct TensorAxis {
  std::string tensor;
  std::size_t rank, axis;
};

/// Of a model's description: what, and how it is.
using DescriptionRow = std::pair<std::string, std::string>;

class Layer {
 public:
  virtual ~Layer() = default;

  /// Of a block, their names without "blocks.N.". No other kind has a tensor of the first one's name.
  virtual std::vector<LayerTensor> tensors(const NetworkShape& shape) const = 0;
  /// Where d_state stands in the tensors of a block; none: the kind has no such size.
  virtual std::optional<TensorAxis> states() const = 0;
  /// Numbers in the recurrent state of a block.
  virtual std::size_t state_size(const NetworkShape& shape) const = 0;
  /// Multiply-additions of the linear layers and convolutions of a block for one sample and time step.
  virtual std::size_t multiply_adds(const NetworkShape& shape) const = 0;

  /// What a model's card says of a network beyond blocks and channels: begins with a comma, or is empty.
  virtual std::string card_text(const NetworkShape& shape) const = 0;
  /// What `mac info` says beyond them.
  virtual std::vector<DescriptionRow> description(const NetworkShape& shape) const = 0;

  /// The layers of all blocks, packed for steps.
  virtual std::unique_ptr<cpu::StepBlocks<float>> pack(
      cpu::Packer<float>& packer, const NetworkShape& shape,
      std::span<const BlockParameters<const float>> weights) const = 0;
  virtual std::unique_ptr<cpu::StepBlocks<double>> pack(
      cpu::Packer<double>& packer, const NetworkShape& shape,
      std::span<const BlockParameters<const double>> weights) const = 0;

  /// One step of a layer as operations of a derivative program. u (d_model) gives its output; `state` becomes
  /// the next one. The names of the layer's weights begin with `prefix`.
  virtual derivative::Value step(derivative::Program& program, const NetworkShape& shape,
                                 const derivative::Value& u, const std::string& prefix,
                                 derivative::Value& state) const = 0;
};

const Layer& layer_of(LayerKind kind);

// Each kind defines its own.
#define MAC_KIND(kind)  \
  namespace kind {      \
  const Layer& layer(); \
  }
MAC_LAYER_KINDS(MAC_KIND)
#undef MAC_KIND

}  // namespace mac
