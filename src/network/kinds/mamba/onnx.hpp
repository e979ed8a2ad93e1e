// One step of a Mamba layer as ONNX nodes; the equations are those of reference.hpp.
#pragma once

#include <cmath>

#include "network/kinds/mamba/layer.hpp"
#include "network/onnx/layer_graph.hpp"

namespace mac::mamba {

using onnx::LayerGraph;
using onnx::Value;

/// u (batch, d_model); the state is the last inputs of the convolution, then s; it becomes the next one.
inline Value onnx_step(LayerGraph& graph, const Sizes& sizes, const Value& u, const std::string& prefix,
                       Value& state) {
  const std::string name = prefix + "mamba.";
  const std::size_t inner = sizes.d_inner, states = sizes.d_state, rank = sizes.rank;
  constexpr std::size_t taps = Sizes::d_conv;
  const auto before = graph.split(state, {(taps - 1) * inner, states * inner});
  const auto xz = graph.split(graph.linear(u, name + "in_proj.weight"), {inner, inner});

  const Value window = graph.concat({before[0], xz[0]});
  const Value next_window = graph.split(window, {inner, (taps - 1) * inner})[1];
  const Value kernel = graph.transposed(name + "conv1d.weight", name + "conv1d.taps", inner, taps,
                                        [](float value) { return value; });
  const Value products = graph.add("Mul", {graph.reshape(window, {0, taps, -1}), kernel});
  const Value convolved =
      graph.add("Add", {graph.sum_over_rows(products), graph.weight(name + "conv1d.bias")});
  const Value v = graph.silu(convolved);

  const auto dt_b_c = graph.split(graph.linear(v, name + "x_proj.weight"), {rank, states, states});
  const Value delta =
      graph.add("Softplus", {graph.linear(dt_b_c[0], name + "dt_proj.weight", name + "dt_proj.bias")});
  const Value A = graph.transposed(name + "A_log", name + "A", inner, states,
                                   [](float value) { return static_cast<float>(-std::exp(double{value})); });
  const Value decay = graph.add("Exp", {graph.add("Mul", {graph.reshape(delta, {0, 1, -1}), A})});
  const Value decayed = graph.add("Mul", {decay, graph.reshape(before[1], {0, std::int64_t(states), -1})});
  const Value drive = graph.reshape(graph.add("Mul", {delta, v}), {0, 1, -1});
  const Value driven = graph.add("Mul", {drive, graph.reshape(dt_b_c[1], {0, -1, 1})});
  const Value s = graph.add("Add", {decayed, driven});  // (batch, d_state, d_inner)

  const Value read = graph.sum_over_rows(graph.add("Mul", {s, graph.reshape(dt_b_c[2], {0, -1, 1})}));
  const Value p = graph.add("Add", {read, graph.add("Mul", {graph.weight(name + "D"), v})});
  state = graph.concat({next_window, graph.reshape(s, {0, -1})});
  return graph.linear(graph.add("Mul", {p, graph.silu(xz[1])}), name + "out_proj.weight");
}

}  // namespace mac::mamba
