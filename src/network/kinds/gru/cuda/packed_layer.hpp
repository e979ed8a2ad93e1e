// A GRU layer's tensors in the order in which the step kernels read them (network/cuda/packed_network.hpp).
#pragma once

#include "network/cuda/packing.hpp"
#include "network/kinds/gru/layer.hpp"

namespace mac::gru {

struct PackedLayer {
  static constexpr LayerKind kind = LayerKind::gru;

  struct Tensors {
    int input, input_bias, hidden, hidden_bias;
  };

  template <class Net>
  static MAC_HOST_DEVICE constexpr int state(const Net& net) {
    return net.d_model;
  }

  template <class Net, class Take>
  static MAC_HOST_DEVICE constexpr Tensors tensors(const Net& net, Take take) {
    const int d = net.d_model;
    Tensors at{};
    at.input = take(3 * d * d), at.input_bias = take(3 * d);
    at.hidden = take(3 * d * d), at.hidden_bias = take(3 * d);
    return at;
  }

  static void pack(const NetworkShape& shape, const float* layer, cuda::Packer& packer) {
    const Sizes s(shape);
    const auto w = view(s, layer);
    packer.linear(w.input, 3 * s.d, s.d);
    packer.linear(w.hidden, 3 * s.d, s.d);
  }
};

}  // namespace mac::gru
