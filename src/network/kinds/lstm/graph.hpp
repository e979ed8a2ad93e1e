// One step of an LSTM layer as operations of a graph (network/step_graph.hpp); the equations are those of
// reference.hpp.
#pragma once

#include <string>
#include <vector>

#include "network/kinds/lstm/layer.hpp"

namespace mac::lstm {

/// u (d); the state is h, then c; it becomes the next one.
template <class Graph>
typename Graph::Value graph_step(Graph& graph, const Sizes& sizes, const typename Graph::Value& u,
                                 const std::string& prefix, typename Graph::Value& state) {
  using Value = typename Graph::Value;
  const std::string name = prefix + "lstm.";
  const auto before = graph.split(state, {sizes.d, sizes.d});
  const Value from_input = graph.linear(u, name + "weight_ih_l0", name + "bias_ih_l0");
  const Value from_hidden = graph.linear(before[0], name + "weight_hh_l0", name + "bias_hh_l0");
  const auto gates = graph.split(graph.plus(from_input, from_hidden), std::vector<std::size_t>(4, sizes.d));
  const Value i = graph.sigmoid(gates[0]), f = graph.sigmoid(gates[1]), g = graph.tanh(gates[2]),
              o = graph.sigmoid(gates[3]);
  const Value kept = graph.times(f, before[1]);
  const Value cell = graph.plus(kept, graph.times(i, g));
  const Value hidden = graph.times(o, graph.tanh(cell));
  state = graph.concat({hidden, cell});
  return hidden;
}

}  // namespace mac::lstm
