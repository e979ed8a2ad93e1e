// One step of the network (mac/network.hpp) as operations of a graph: ONNX nodes, or a program for derivatives.
// The graph is any that has the words of derivative::Program; what a layer is, its kind says in
// kinds/KIND/graph.hpp.
#pragma once

#include <mac/network.hpp>
#include <string>
#include <vector>

namespace mac {

/// x gives y, both normalised; states[i], that of block i, becomes the next one.
/// layer(u, prefix, state) is the step of a layer whose weights' names begin with prefix.
template <class Graph, class LayerStep>
typename Graph::Value network_step(Graph& graph, const NetworkShape& shape, const typename Graph::Value& x,
                                   std::vector<typename Graph::Value>& states, const LayerStep& layer) {
  using Value = typename Graph::Value;
  Value h = graph.silu(graph.linear(x, "input_proj.weight", "input_proj.bias"));
  for (std::size_t i = 0; i < shape.n_blocks; ++i) {
    const std::string prefix = "blocks." + std::to_string(i) + ".";
    const Value u = graph.layer_norm(h, prefix + "norm");
    h = graph.plus(h, layer(u, prefix, states[i]));
  }
  const Value hidden =
      graph.silu(graph.linear(graph.layer_norm(h, "norm"), "output_proj.0.weight", "output_proj.0.bias"));
  return graph.linear(hidden, "output_proj.2.weight", "output_proj.2.bias");
}

}  // namespace mac
