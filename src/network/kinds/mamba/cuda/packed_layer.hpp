// A Mamba layer's tensors in the order in which the step kernels read them (network/cuda/packed_network.hpp).
#pragma once

#include <mac/host_device.hpp>
#include <mac/network.hpp>

namespace mac::cuda {
class Packer;  // network/cuda/packing.hpp
}

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

  /// Adds the layer's numbers in the order of `tensors`.
  static void pack(const NetworkShape& shape, const float* layer, cuda::Packer& packer);
};

}  // namespace mac::mamba
