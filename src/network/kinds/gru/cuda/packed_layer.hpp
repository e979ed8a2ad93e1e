// A GRU layer's tensors in the order in which the step kernels read them (network/cuda/packed_network.hpp).
#pragma once

#include <mac/host_device.hpp>
#include <mac/network.hpp>

namespace mac::cuda {
class Packer;  // network/cuda/packing.hpp
}

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

  /// Adds the layer's numbers in the order of `tensors`.
  static void pack(const NetworkShape& shape, const float* layer, cuda::Packer& packer);
};

}  // namespace mac::gru
