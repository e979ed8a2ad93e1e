// One step of a selective layer as operations of a graph (network/step_graph.hpp); the equations are those of
// reference.hpp. Convolution and scan are operations of their own: onnx.hpp, derivative.hpp and those of the kinds.
#pragma once

#include <string>

#include "network/selective/layer.hpp"

namespace mac::selective {

/// Results of the scan: the next s (d_state, d_inner) and p (d_inner).
template <class Value>
struct Scanned {
  Value s, p;
};

/// u (d_model); the state is the last inputs of the convolution, then s; it becomes the next one. Sizes are a kind's, whose
/// scan() this calls; its weights' names begin with `name`.
template <class Graph, class Sizes>
typename Graph::Value layer_step(Graph& graph, const Sizes& sizes, const typename Graph::Value& u,
                                 const std::string& name, typename Graph::Value& state) {
  using Value = typename Graph::Value;
  const std::size_t inner = sizes.d_inner, states = sizes.d_state, rank = sizes.rank;
  constexpr std::size_t taps = Sizes::d_conv;
  const auto before = graph.split(state, {(taps - 1) * inner, states * inner});
  const auto xz = graph.split(graph.linear(u, name + "in_proj.weight"), {inner, inner});

  const Value window = graph.concat({before[0], xz[0]});
  const Value next_window = graph.split(window, {inner, (taps - 1) * inner})[1];
  const Value v = graph.silu(convolution(graph, sizes, window, name));

  const auto dt_b_c = graph.split(graph.linear(v, name + "x_proj.weight"), {rank, states, states});
  const Value delta = graph.softplus(graph.linear(dt_b_c[0], name + "dt_proj.weight", name + "dt_proj.bias"));
  const Scanned<Value> scanned = scan(graph, sizes, before[1], delta, v, dt_b_c[1], dt_b_c[2], name);
  state = graph.concat({next_window, scanned.s});
  return graph.linear(graph.times(scanned.p, graph.silu(xz[1])), name + "out_proj.weight");
}

}  // namespace mac::selective
