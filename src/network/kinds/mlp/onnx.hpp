// One step of a layer without memory as ONNX nodes; the equations are those of reference.hpp.
#pragma once

#include "network/kinds/mlp/layer.hpp"
#include "network/onnx/layer_graph.hpp"

namespace mac::mlp {

inline onnx::Value onnx_step(onnx::LayerGraph& graph, const Sizes&, const onnx::Value& u,
                             const std::string& prefix, onnx::Value&) {
  const std::string name = prefix + "mlp.";
  const onnx::Value activated = graph.silu(graph.linear(u, name + "0.weight", name + "0.bias"));
  return graph.linear(activated, name + "2.weight", name + "2.bias");
}

}  // namespace mac::mlp
