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
struct MambaParameters {
  T* in_proj;                // (2·d_inner, d_model): rows of x, then of z
  T* conv_weight;            // (d_inner, 1, d_conv)
  T* conv_bias;              // (d_inner)
  T* x_proj;                 // (dt_rank + 2·d_state, d_inner): rows of dt, B, C
  LinearParameters<T> step;  // (d_inner, dt_rank), (d_inner): dt_proj
  T* A_log;                  // (d_inner, d_state)
  T* D;                      // (d_inner)
  T* out_proj;               // (d_model, d_inner)
};

template <class T>
struct GruParameters {
  LinearParameters<T> input;   // (3·d_model, d_model), (3·d_model): gates r, z, n
  LinearParameters<T> hidden;  // likewise
};

template <class T>
struct BlockParameters {
  NormParameters<T> norm;
  MambaParameters<T> mamba;  // null pointers in a GRU network
  GruParameters<T> gru;      // null pointers in a Mamba network
};

template <class T>
struct NetworkParameters {
  LinearParameters<T> input_proj;
  std::vector<BlockParameters<T>> blocks;
  NormParameters<T> norm;
  LinearParameters<T> hidden_proj;  // output_proj.0
  LinearParameters<T> output_proj;  // output_proj.2
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
    const std::string prefix = fmt::format("blocks.{}.", i);
    BlockParameters<T> block{norm(prefix + "norm"), {}, {}};
    if (shape.kind == LayerKind::mamba) {
      const std::string mamba = prefix + "mamba.";
      block.mamba = {tensor(mamba + "in_proj.weight"),
                     tensor(mamba + "conv1d.weight"),
                     tensor(mamba + "conv1d.bias"),
                     tensor(mamba + "x_proj.weight"),
                     pair(mamba + "dt_proj"),
                     tensor(mamba + "A_log"),
                     tensor(mamba + "D"),
                     tensor(mamba + "out_proj.weight")};
    } else {
      const std::string gru = prefix + "gru.";
      block.gru = {{tensor(gru + "weight_ih_l0"), tensor(gru + "bias_ih_l0")},
                   {tensor(gru + "weight_hh_l0"), tensor(gru + "bias_hh_l0")}};
    }
    view.blocks.push_back(block);
  }
  return view;
}

}  // namespace mac
