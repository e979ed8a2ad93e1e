// One step of a layer without memory as operations of a graph (network/step_graph.hpp); the equations are those
// of reference.hpp.
#pragma once

#include <string>

#include "network/kinds/mlp/layer.hpp"

namespace mac::mlp {

template <class Graph>
typename Graph::Value graph_step(Graph& graph, const Sizes&, const typename Graph::Value& u,
                                 const std::string& prefix, typename Graph::Value&) {
  const std::string name = prefix + "mlp.";
  const auto activated = graph.silu(graph.linear(u, name + "0.weight", name + "0.bias"));
  return graph.linear(activated, name + "2.weight", name + "2.bias");
}

}  // namespace mac::mlp
