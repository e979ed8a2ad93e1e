// A Mamba layer's tensors in the order in which the step kernels read them (network/cuda/packed_network.hpp).
#pragma once

#include "network/cuda/packing.hpp"
#include "network/kinds/mamba/layer.hpp"

namespace mac::mamba {

struct PackedLayer {
  static constexpr LayerKind kind = LayerKind::mamba;

  // conv_weight is (4, d_inner), A log₂e (d_state, d_inner), whatever way the linear layers are read.
  struct Tensors {
    int in_proj, conv_weight, conv_bias, x_proj, step_weight, step_bias, A, D, out_proj;
  };

  template <class Net>
  static MAC_HOST_DEVICE constexpr int inner(const Net& net) {
    return 2 * net.d_model;
  }
  template <class Net>
  static MAC_HOST_DEVICE constexpr int rank(const Net& net) {
    return (net.d_model + 15) / 16;
  }
  template <class Net>
  static MAC_HOST_DEVICE constexpr int projected(const Net& net) {
    return rank(net) + 2 * net.d_state;
  }
  /// Numbers of the layer's recurrent state.
  template <class Net>
  static MAC_HOST_DEVICE constexpr int state(const Net& net) {
    return (3 + net.d_state) * inner(net);
  }

  template <class Net, class Take>
  static MAC_HOST_DEVICE constexpr Tensors tensors(const Net& net, Take take) {
    const int d = net.d_model, wide = inner(net);
    Tensors at{};
    at.in_proj = take(d * 2 * wide);
    at.conv_weight = take(4 * wide), at.conv_bias = take(wide);
    at.x_proj = take(wide * projected(net));
    at.step_weight = take(rank(net) * wide), at.step_bias = take(wide);
    at.A = take(net.d_state * wide), at.D = take(wide);
    at.out_proj = take(wide * d);
    return at;
  }

  /// The layer's numbers, in the order of `tensors`.
  static void pack(const NetworkShape& shape, const float* layer, cuda::Packer& packer) {
    const Sizes s(shape);
    const auto w = view(s, layer);
    packer.matrix(w.in_proj, 2 * s.d_inner, s.d_model);
    packer.transposed(w.conv_weight, s.d_inner, s.d_conv);
    packer.copy(w.conv_bias, s.d_inner);
    packer.matrix(w.x_proj, s.rank + 2 * s.d_state, s.d_inner);
    packer.matrix(w.step.weight, s.d_inner, s.rank);
    packer.copy(w.step.bias, s.d_inner);
    packer.transposed(w.A_log, s.d_inner, s.d_state, cuda::Packer::As::decay_rate);
    packer.copy(w.D, s.d_inner);
    packer.matrix(w.out_proj, s.d_model, s.d_inner);
  }
};

}  // namespace mac::mamba
