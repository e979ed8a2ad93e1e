// One step of a Mamba layer as operations of a graph (network/step_graph.hpp).
#pragma once

#include <string>

#include "network/kinds/mamba/layer.hpp"
#include "network/selective/graph.hpp"

namespace mac::mamba {

using selective::Scanned;

/// u (d_model); the state becomes the next one.
template <class Graph>
typename Graph::Value graph_step(Graph& graph, const Sizes& sizes, const typename Graph::Value& u,
                                 const std::string& prefix, typename Graph::Value& state) {
  return selective::layer_step(graph, sizes, u, prefix + "mamba.", state);
}

}  // namespace mac::mamba
