// A network's weights in the order in which a rollout kernel reads them.
//
// A linear layer is transposed, (inputs, outputs): the threads that compute neighbouring outputs read
// neighbouring weights.
#pragma once

#include <mac/host_device.hpp>
#include <mac/network.hpp>
#include <vector>

namespace mac::cuda {

struct PackedSizes {
  LayerKind kind;
  int d_in, d_out, d_model, blocks, d_inner, d_state, rank;
};

/// Sizes known at compile time: loops unroll and addresses are constants. For Mamba networks.
template <int D_IN, int D_OUT, int D_MODEL, int BLOCKS, int D_STATE>
struct FixedPackedSizes {
  static constexpr LayerKind kind = LayerKind::mamba;
  static constexpr int d_in = D_IN, d_out = D_OUT, d_model = D_MODEL, blocks = BLOCKS, d_inner = 2 * D_MODEL,
                       d_state = D_STATE, rank = (D_MODEL + 15) / 16;

  FixedPackedSizes() = default;
  MAC_HOST_DEVICE explicit FixedPackedSizes(const PackedSizes&) {}
  static bool suits(const PackedSizes& s) {
    return s.kind == kind && s.d_in == d_in && s.d_out == d_out && s.d_model == d_model &&
           s.blocks == blocks && s.d_state == d_state;
  }
};

/// Offsets of a block's tensors in the packed array.
struct PackedBlock {
  int norm;  // weight, bias
  // Mamba: conv_weight (4, d_inner), A log₂e (d_state, d_inner)
  int in_proj, conv_weight, conv_bias, x_proj, step_weight, step_bias, A, D, out_proj;
  // GRU
  int input, input_bias, hidden, hidden_bias;
};

/// Where everything lies in the packed array.
template <class Sizes>
struct PackedLayout : Sizes {
  using Sizes::blocks, Sizes::d_in, Sizes::d_inner, Sizes::d_model, Sizes::d_out, Sizes::d_state, Sizes::kind,
      Sizes::rank;

  PackedLayout() = default;
  MAC_HOST_DEVICE explicit PackedLayout(const PackedSizes& sizes) : Sizes(sizes) {}

  MAC_HOST_DEVICE bool mamba() const { return kind == LayerKind::mamba; }  // the other is the GRU
  MAC_HOST_DEVICE int projected() const { return rank + 2 * d_state; }
  /// Numbers of a block's recurrent state.
  MAC_HOST_DEVICE int block_state() const { return mamba() ? (3 + d_state) * d_inner : d_model; }

  MAC_HOST_DEVICE int block_size() const {
    return mamba() ? 2 * d_model + d_inner * (3 * d_model + 7 + projected() + rank + d_state)
                   : 2 * d_model + 6 * d_model * (d_model + 1);
  }

  // Offsets in the packed array; a linear layer's bias follows its weight.
  MAC_HOST_DEVICE int input() const { return 0; }
  MAC_HOST_DEVICE int first_block() const { return d_model * (d_in + 1); }
  MAC_HOST_DEVICE PackedBlock block(int i) const {
    int next = first_block() + i * block_size();
    const auto take = [&next](int count) {
      const int start = next;
      next += count;
      return start;
    };
    PackedBlock at{};
    at.norm = take(2 * d_model);
    if (mamba()) {
      at.in_proj = take(d_model * 2 * d_inner);
      at.conv_weight = take(4 * d_inner), at.conv_bias = take(d_inner);
      at.x_proj = take(d_inner * projected());
      at.step_weight = take(rank * d_inner), at.step_bias = take(d_inner);
      at.A = take(d_state * d_inner), at.D = take(d_inner);
      at.out_proj = take(d_inner * d_model);
    } else {
      at.input = take(3 * d_model * d_model), at.input_bias = take(3 * d_model);
      at.hidden = take(3 * d_model * d_model), at.hidden_bias = take(3 * d_model);
    }
    return at;
  }
  MAC_HOST_DEVICE int norm() const { return first_block() + blocks * block_size(); }
  MAC_HOST_DEVICE int hidden() const { return norm() + 2 * d_model; }
  MAC_HOST_DEVICE int output() const { return hidden() + d_model * (d_model + 1); }
  MAC_HOST_DEVICE int size() const { return output() + d_out * (d_model + 1); }
};

using PackedNetwork = PackedLayout<PackedSizes>;

/// Throws UsageError for a kind that rollouts on the device do not know.
PackedNetwork packed_network(const NetworkShape& shape);
std::vector<float> pack_parameters(const NetworkShape& shape, const std::vector<float>& parameters);

}  // namespace mac::cuda
