// One step of an LSTM layer as ONNX nodes; the equations are those of reference.hpp.
#pragma once

#include "network/kinds/lstm/layer.hpp"
#include "network/onnx/layer_graph.hpp"

namespace mac::lstm {

/// u (batch, d); the state is h, then c; it becomes the next one.
inline onnx::Value onnx_step(onnx::LayerGraph& graph, const Sizes& sizes, const onnx::Value& u,
                             const std::string& prefix, onnx::Value& state) {
  const std::string name = prefix + "lstm.";
  const auto before = graph.split(state, {sizes.d, sizes.d});
  const onnx::Value sums =
      graph.add("Add", {graph.linear(u, name + "weight_ih_l0", name + "bias_ih_l0"),
                        graph.linear(before[0], name + "weight_hh_l0", name + "bias_hh_l0")});
  const auto gates = graph.split(sums, std::vector<std::size_t>(4, sizes.d));
  const onnx::Value i = graph.add("Sigmoid", {gates[0]}), f = graph.add("Sigmoid", {gates[1]}),
                    g = graph.add("Tanh", {gates[2]}), o = graph.add("Sigmoid", {gates[3]});
  const onnx::Value cell = graph.add("Add", {graph.add("Mul", {f, before[1]}), graph.add("Mul", {i, g})});
  const onnx::Value hidden = graph.add("Mul", {o, graph.add("Tanh", {cell})});
  state = graph.concat({hidden, cell});
  return hidden;
}

}  // namespace mac::lstm
