// Where a network's tensors lie in the packed array that the step kernels read.
#pragma once

#include <mac/host_device.hpp>
#include <mac/network.hpp>
#include <vector>

namespace mac::cuda {

struct PackedSizes {
  LayerKind kind;
  int d_in, d_out, d_model, blocks, d_state;
};

/// Sizes known at compile time: loops unroll and addresses are constants.
template <int D_IN, int D_OUT, int D_MODEL, int BLOCKS, int D_STATE>
struct FixedPackedSizes {
  static constexpr int d_in = D_IN, d_out = D_OUT, d_model = D_MODEL, blocks = BLOCKS, d_state = D_STATE;

  FixedPackedSizes() = default;
  MAC_HOST_DEVICE explicit FixedPackedSizes(const PackedSizes&) {}
  static bool suits(const PackedSizes& s) {
    return s.d_in == d_in && s.d_out == d_out && s.d_model == d_model && s.blocks == blocks &&
           s.d_state == d_state;
  }
};
/// The sizes of any network.
struct AnyPackedSizes : PackedSizes {
  AnyPackedSizes() = default;
  MAC_HOST_DEVICE explicit AnyPackedSizes(const PackedSizes& sizes) : PackedSizes(sizes) {}
  static bool suits(const PackedSizes&) { return true; }
};

/// The frame around the blocks; `Layer_` is a kind's PackedLayer, or what derives from it. Offsets are in numbers;
/// a linear layer's bias follows its weight.
template <class Layer_, class Sizes>
struct PackedLayout : Sizes {
  using Layer = Layer_;
  using Sizes::blocks, Sizes::d_in, Sizes::d_model, Sizes::d_out;

  struct Block {
    int norm;  // weight, bias
    typename Layer::Tensors layer;
  };

  PackedLayout() = default;
  MAC_HOST_DEVICE explicit PackedLayout(const PackedSizes& sizes) : Sizes(sizes) {}
  static bool suits(const PackedSizes& sizes) { return sizes.kind == Layer::kind && Sizes::suits(sizes); }

  /// Numbers of a block's recurrent state, and of all.
  MAC_HOST_DEVICE int block_state() const { return Layer::state(*this); }
  MAC_HOST_DEVICE int state() const { return blocks * block_state(); }

  MAC_HOST_DEVICE int input() const { return 0; }
  MAC_HOST_DEVICE Block block(int i) const {
    int next = d_model * (d_in + 1) + i * block_size();
    const auto take = [&next](int count) {
      const int start = next;
      next += count;
      return start;
    };
    const int norm = take(2 * d_model);
    return {norm, Layer::tensors(*this, take)};
  }
  MAC_HOST_DEVICE int norm() const { return d_model * (d_in + 1) + blocks * block_size(); }
  MAC_HOST_DEVICE int hidden() const { return norm() + 2 * d_model; }
  MAC_HOST_DEVICE int output() const { return hidden() + d_model * (d_model + 1); }
  MAC_HOST_DEVICE int size() const { return output() + d_out * (d_model + 1); }

 private:
  MAC_HOST_DEVICE int block_size() const {
    int size = 2 * d_model;
    Layer::tensors(*this, [&size](int count) { return size += count; });
    return size;
  }
};

/// How matrices (outputs, inputs) are packed. A step reads them (inputs, outputs), its gradient as they are: in
/// either case threads that compute neighbouring sums read neighbouring weights.
enum class Reading { forward, backward };

/// Whether there are kernels for single steps of a kind, which rollouts take.
bool has_step_kernels(LayerKind kind);
/// Throws UsageError for a kind without step kernels.
PackedSizes packed_sizes(const NetworkShape& shape);
/// The place in the parameters of every number of the packed array (see Packer::places).
std::vector<int> packing(const NetworkShape& shape, Reading reading);
/// Of all members, one after the other.
std::vector<float> pack_parameters(const NetworkShape& shape, const std::vector<float>& parameters);

}  // namespace mac::cuda
