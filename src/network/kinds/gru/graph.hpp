// One step of a GRU layer as operations of a graph (network/step_graph.hpp); the equations are those of
// reference.hpp.
#pragma once

#include <string>
#include <vector>

#include "network/kinds/gru/layer.hpp"

namespace mac::gru {

/// u (d_model); the state is h; it becomes the next one.
template <class Graph>
typename Graph::Value graph_step(Graph& graph, const Sizes& sizes, const typename Graph::Value& u,
                                 const std::string& prefix, typename Graph::Value& state) {
  using Value = typename Graph::Value;
  const std::string name = prefix + "gru.";
  const std::vector<std::size_t> gates(3, sizes.d);
  const auto i = graph.split(graph.linear(u, name + "weight_ih_l0", name + "bias_ih_l0"), gates);
  const auto q = graph.split(graph.linear(state, name + "weight_hh_l0", name + "bias_hh_l0"), gates);
  const Value r = graph.sigmoid(graph.plus(i[0], q[0]));
  const Value z = graph.sigmoid(graph.plus(i[1], q[1]));
  const Value n = graph.tanh(graph.plus(i[2], graph.times(r, q[2])));
  state = graph.plus(n, graph.times(z, graph.minus(state, n)));  // h' = n + z (h - n)
  return state;
}

}  // namespace mac::gru
