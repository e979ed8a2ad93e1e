// The flat parameter array seen as named tensors. T is `const float` for weights, `float` for gradients.
#pragma once

#include <fmt/format.h>

#include <mac/network.hpp>
#include <vector>

namespace mac {

template <class T>
struct LinearParameters {
  T* weight;  // (d_out, d_in)
  T* bias;    // (d_out)
};

template <class T>
struct NormParameters {
  T* weight;  // (d_model)
  T* bias;    // (d_model)
};

template <class T>
struct BlockParameters {
  NormParameters<T> norm;
  T* layer;  // the tensors of the block's layer, one after the other: for its kind to view
};

template <class T>
struct NetworkParameters {
  LinearParameters<T> input_proj;
  std::vector<BlockParameters<T>> blocks;
  NormParameters<T> norm;
  LinearParameters<T> hidden_proj;  // output_proj.0
  LinearParameters<T> output_proj;  // output_proj.2
};

/// Hands out one tensor after the other.
template <class T>
class TensorCursor {
 public:
  explicit TensorCursor(T* first) : next_(first) {}
  T* take(std::size_t size) {
    T* const tensor = next_;
    next_ += size;
    return tensor;
  }
  LinearParameters<T> take_linear(std::size_t outputs, std::size_t inputs) {
    T* const weight = take(outputs * inputs);
    return {weight, take(outputs)};
  }

 private:
  T* next_;
};

template <class T>
NetworkParameters<T> view_parameters(const NetworkShape& shape, const ParameterLayout& layout, T* flat) {
  const auto tensor = [&](const std::string& name) { return flat + layout.at(name).offset; };
  const auto pair = [&](const std::string& name) {
    return LinearParameters<T>{tensor(name + ".weight"), tensor(name + ".bias")};
  };
  const auto norm = [&](const std::string& name) {
    return NormParameters<T>{tensor(name + ".weight"), tensor(name + ".bias")};
  };

  NetworkParameters<T> view{
      pair("input_proj"), {}, norm("norm"), pair("output_proj.0"), pair("output_proj.2")};
  for (std::size_t i = 0; i < shape.n_blocks; ++i) {
    const NormParameters<T> of_block = norm(fmt::format("blocks.{}.norm", i));
    view.blocks.push_back({of_block, of_block.bias + shape.d_model});
  }
  return view;
}

}  // namespace mac
