// The scan of an oscillator layer as ONNX nodes.
#pragma once

#include <cmath>

#include "network/kinds/oscillator/graph.hpp"
#include "network/selective/onnx.hpp"

namespace mac::oscillator {

/// z ← e^(−Δ a) (cos(Δ ω) z + sin(Δ ω) i z) + Δ B v, where i z has the parts −Im z, Re z.
inline Scanned<onnx::Value> scan(onnx::LayerGraph& graph, const Sizes& sizes, const onnx::Value& before,
                                 const onnx::Value& delta, const onnx::Value& v, const onnx::Value& B,
                                 const onnx::Value& C, const std::string& name) {
  using onnx::Value;
  const auto pairs = static_cast<std::int64_t>(sizes.pairs);
  // (batch, pairs, 2, d_inner): numbers, their parts, channels; 1 where all have the same.
  const auto rate = [&](const std::string& tensor, const std::string& result, float (*function)(float)) {
    return graph.reshape(graph.transposed(name + tensor, name + result, sizes.d_inner, sizes.pairs, function),
                         {1, pairs, 1, -1});
  };
  const Value A =
      rate("A_log", "A", [](float value) { return static_cast<float>(-std::exp(double{value})); });
  const Value omega =
      rate("omega_log", "omega", [](float value) { return static_cast<float>(std::exp(double{value})); });
  const Value step = graph.reshape(delta, {0, 1, 1, -1});
  const Value z = graph.reshape(before, {0, pairs, 2, -1}), angle = graph.times(step, omega);
  const Value swapped = graph.add("Gather", {z, graph.integers({1, 0})}, {{"axis", std::int64_t{2}}});
  const Value signs = graph.constant(name + "signs", {1, 1, 2, 1}, std::vector<float>{-1, 1});
  const Value turned = graph.plus(graph.times(graph.add("Cos", {angle}), z),
                                  graph.times(graph.add("Sin", {angle}), graph.times(signs, swapped)));
  const Value decayed = graph.times(graph.add("Exp", {graph.times(step, A)}), turned);
  const Value drive = graph.reshape(graph.times(delta, v), {0, 1, 1, -1});
  const Value driven = graph.times(drive, graph.reshape(B, {0, pairs, 2, 1}));
  const Value s = graph.reshape(graph.plus(decayed, driven), {0, 2 * pairs, -1});

  const Value read = graph.sum_over_rows(graph.times(s, graph.reshape(C, {0, -1, 1})));
  const Value p = graph.plus(read, graph.times(graph.weight(name + "D"), v));
  return {graph.reshape(s, {0, -1}), p};
}

}  // namespace mac::oscillator
