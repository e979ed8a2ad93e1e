// The convolution of a selective layer as ONNX nodes.
#pragma once

#include "network/onnx/layer_graph.hpp"
#include "network/selective/layer.hpp"

namespace mac::selective {

/// window (batch, d_conv · d_inner), oldest first -> (batch, d_inner)
inline onnx::Value convolution(onnx::LayerGraph& graph, const Sizes& sizes, const onnx::Value& window,
                               const std::string& name) {
  const onnx::Value kernel = graph.transposed(name + "conv1d.weight", name + "conv1d.taps", sizes.d_inner,
                                              Sizes::d_conv, [](float value) { return value; });
  const onnx::Value products = graph.times(graph.reshape(window, {0, Sizes::d_conv, -1}), kernel);
  return graph.plus(graph.sum_over_rows(products), graph.weight(name + "conv1d.bias"));
}

}  // namespace mac::selective
