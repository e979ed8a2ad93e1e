// One step of a GRU layer as ONNX nodes; the equations are those of reference.hpp.
#pragma once

#include "network/kinds/gru/layer.hpp"
#include "network/onnx/layer_graph.hpp"

namespace mac::gru {

using onnx::LayerGraph;
using onnx::Value;

/// u (batch, d_model); the state is h; it becomes the next one.
inline Value onnx_step(LayerGraph& graph, const Sizes& sizes, const Value& u, const std::string& prefix,
                       Value& state) {
  const std::string name = prefix + "gru.";
  const std::vector<std::size_t> gates(3, sizes.d);
  const auto i = graph.split(graph.linear(u, name + "weight_ih_l0", name + "bias_ih_l0"), gates);
  const auto q = graph.split(graph.linear(state, name + "weight_hh_l0", name + "bias_hh_l0"), gates);
  const Value r = graph.add("Sigmoid", {graph.add("Add", {i[0], q[0]})});
  const Value z = graph.add("Sigmoid", {graph.add("Add", {i[1], q[1]})});
  const Value n = graph.add("Tanh", {graph.add("Add", {i[2], graph.add("Mul", {r, q[2]})})});
  const Value change = graph.add("Mul", {z, graph.add("Sub", {state, n})});  // h' = n + z (h - n)
  state = graph.add("Add", {n, change});
  return state;
}

}  // namespace mac::gru
