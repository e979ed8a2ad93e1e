// A graph with a model's weights, and the operations that the layers are made of.
#pragma once

#include <mac/model.hpp>

#include "network/onnx/graph.hpp"

namespace mac::onnx {

class LayerGraph : public Graph {
 public:
  using Value = onnx::Value;

  LayerGraph(const std::string& name, const Model& model)
      : Graph(name), layout_(model.shape), parameters_(parameters_as<float>(model)) {}

  // Weights keep their names.
  Value weight(const std::string& name) {
    const TensorSpec& tensor = layout_.at(name);
    return constant(name, tensor.shape, values(tensor));
  }
  /// A tensor (rows, columns) turned over.
  Value transposed(const std::string& name, const std::string& new_name, std::size_t rows,
                   std::size_t columns, float (*function)(float)) {
    const auto from = values(layout_.at(name));
    std::vector<float> to(from.size());
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) to[c * rows + r] = function(from[r * columns + c]);
    return constant(new_name, {columns, rows}, to);
  }

  Value linear(const Value& x, const std::string& name, const std::string& bias = "") {
    std::vector<Value> inputs{x, weight(name)};
    if (!bias.empty()) inputs.push_back(weight(bias));
    return add("Gemm", inputs, {{"transB", std::int64_t{1}}});
  }
  Value sigmoid(const Value& x) { return add("Sigmoid", {x}); }
  Value tanh(const Value& x) { return add("Tanh", {x}); }
  Value softplus(const Value& x) { return add("Softplus", {x}); }
  Value plus(const Value& a, const Value& b) { return add("Add", {a, b}); }
  Value minus(const Value& a, const Value& b) { return add("Sub", {a, b}); }
  Value times(const Value& a, const Value& b) { return add("Mul", {a, b}); }
  Value silu(const Value& x) { return times(x, sigmoid(x)); }
  Value layer_norm(const Value& x, const std::string& name) {
    return add("LayerNormalization", {x, weight(name + ".weight"), weight(name + ".bias")},
               {{"epsilon", 1e-5F}});
  }
  /// (batch, rows · columns) as (batch, rows, columns); -1 for what the others leave.
  Value reshape(const Value& x, const std::vector<std::int64_t>& shape) {
    return add("Reshape", {x, integers(shape)});
  }
  /// Columns of (batch, ·) values, one after the other.
  Value concat(const std::vector<Value>& values, const std::string& result = "") {
    return add("Concat", values, {{"axis", std::int64_t{1}}}, result);
  }
  Value cast(const Value& x, ElementType type, const std::string& result = "") {
    return add("Cast", {x}, {{"to", static_cast<std::int64_t>(type)}}, result);
  }

  /// (batch, rows, columns) -> (batch, columns)
  Value sum_over_rows(const Value& x) {
    return add("ReduceSum", {x, integers({1})}, {{"keepdims", std::int64_t{0}}});
  }

 private:
  std::span<const float> values(const TensorSpec& tensor) const {
    return std::span(parameters_).subspan(tensor.offset, tensor.size);
  }

  ParameterLayout layout_;
  std::vector<float> parameters_;
};

}  // namespace mac::onnx
