// The scan of a Mamba layer as ONNX nodes.
#pragma once

#include <cmath>

#include "network/kinds/mamba/graph.hpp"
#include "network/selective/onnx.hpp"

namespace mac::mamba {

inline Scanned<onnx::Value> scan(onnx::LayerGraph& graph, const Sizes& sizes, const onnx::Value& before,
                                 const onnx::Value& delta, const onnx::Value& v, const onnx::Value& B,
                                 const onnx::Value& C, const std::string& name) {
  using onnx::Value;
  const std::size_t inner = sizes.d_inner, states = sizes.d_state;
  const Value A = graph.transposed(name + "A_log", name + "A", inner, states,
                                   [](float value) { return static_cast<float>(-std::exp(double{value})); });
  const Value decay = graph.add("Exp", {graph.times(graph.reshape(delta, {0, 1, -1}), A)});
  const Value decayed = graph.times(decay, graph.reshape(before, {0, std::int64_t(states), -1}));
  const Value drive = graph.reshape(graph.times(delta, v), {0, 1, -1});
  const Value driven = graph.times(drive, graph.reshape(B, {0, -1, 1}));
  const Value s = graph.plus(decayed, driven);  // (batch, d_state, d_inner)

  const Value read = graph.sum_over_rows(graph.times(s, graph.reshape(C, {0, -1, 1})));
  const Value p = graph.plus(read, graph.times(graph.weight(name + "D"), v));
  return {graph.reshape(s, {0, -1}), p};
}

}  // namespace mac::mamba
