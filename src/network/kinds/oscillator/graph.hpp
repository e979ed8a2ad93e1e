// One step of an oscillator layer as operations of a graph (network/step_graph.hpp).
#pragma once

#include <string>

#include "network/kinds/oscillator/layer.hpp"
#include "network/selective/graph.hpp"

namespace mac::oscillator {

using selective::Scanned;

/// u (d_model); the state becomes the next one.
template <class Graph>
typename Graph::Value graph_step(Graph& graph, const Sizes& sizes, const typename Graph::Value& u,
                                 const std::string& prefix, typename Graph::Value& state) {
  return selective::layer_step(graph, sizes, u, prefix + "oscillator.", state);
}

}  // namespace mac::oscillator
