// A Layer from what a kind's folder declares, for the layer.cpp of each.
#pragma once

#include "network/cpu/step_blocks.hpp"
#include "network/derivative/program.hpp"
#include "network/kinds/layer.hpp"

namespace mac {

/// A kind's own Packed<T> has, beside the packed weights of a block,
///   Packed(packer, sizes, weights), with weights as the kind's view(sizes, first) gives them,
///   scratch_size(), and kernels(), those for this machine.
/// Its graph_step (graph.hpp) is one step as operations of a graph.
template <class Sizes, template <class> class Packed>
class LayerOf : public Layer {
 public:
  std::unique_ptr<cpu::StepBlocks<float>> pack(
      cpu::Packer<float>& packer, const NetworkShape& shape,
      std::span<const BlockParameters<const float>> weights) const override {
    return pack_all(packer, shape, weights);
  }
  std::unique_ptr<cpu::StepBlocks<double>> pack(
      cpu::Packer<double>& packer, const NetworkShape& shape,
      std::span<const BlockParameters<const double>> weights) const override {
    return pack_all(packer, shape, weights);
  }
  derivative::Value step(derivative::Program& program, const NetworkShape& shape, const derivative::Value& u,
                         const std::string& prefix, derivative::Value& state) const override {
    return graph_step(program, Sizes(shape), u, prefix, state);
  }

 private:
  template <class T>
  static std::unique_ptr<cpu::StepBlocks<T>> pack_all(cpu::Packer<T>& packer, const NetworkShape& shape,
                                                      std::span<const BlockParameters<const T>> weights) {
    const Sizes sizes(shape);
    std::vector<Packed<T>> blocks;
    for (const BlockParameters<const T>& block : weights)
      blocks.emplace_back(packer, sizes, view(sizes, block.layer));
    return std::make_unique<cpu::StepBlocksOf<T, Packed<T>>>(std::move(blocks));
  }
};

}  // namespace mac
