// One step of the network (mac/network.hpp) as operations of a graph: ONNX nodes, or a program for derivatives.
// The graph is any that has the words of derivative::Program; what a layer is, its kind says in
// kinds/KIND/graph.hpp.
#pragma once

#include <mac/network.hpp>
#include <string>
#include <vector>

namespace mac {

/// x gives y, both normalised; states[i], that of block i (of an ensemble's members one after the other), becomes the
/// next one.
/// layer(u, prefix, state) is the step of a layer whose weights' names begin with prefix.
template <class Graph, class LayerStep>
typename Graph::Value network_step(Graph& graph, const NetworkShape& shape, const typename Graph::Value& x,
                                   std::vector<typename Graph::Value>& states, const LayerStep& layer) {
  using Value = typename Graph::Value;
  if (shape.deviations) {
    const std::vector<Value> parts = graph.split(x, {shape.d_in - shape.d_out, shape.d_out});
    const Value both = network_step(graph, shape.core(), parts[0], states, layer);
    const std::vector<Value> of = graph.split(both, {shape.d_out, shape.d_out});
    return graph.plus(of[0], graph.times(graph.softplus(of[1]), parts[1]));
  }
  std::vector<Value> outputs;
  for (std::size_t m = 0; m < shape.members; ++m) {
    const std::string member = member_prefix(shape, m);
    const auto linear = [&](const Value& in, const std::string& name) {
      return graph.linear(in, member + name + ".weight", member + name + ".bias");
    };
    Value h = graph.silu(linear(x, "input_proj"));
    for (std::size_t i = 0; i < shape.n_blocks; ++i) {
      const std::string prefix = member + "blocks." + std::to_string(i) + ".";
      const Value u = graph.layer_norm(h, prefix + "norm");
      h = graph.plus(h, layer(u, prefix, states[m * shape.n_blocks + i]));
    }
    const Value hidden = graph.silu(linear(graph.layer_norm(h, member + "norm"), "output_proj.0"));
    outputs.push_back(linear(hidden, "output_proj.2"));
  }
  Value sum = outputs.front();
  for (std::size_t m = 1; m < shape.members; ++m) sum = graph.plus(sum, outputs[m]);
  return sum;
}

}  // namespace mac
