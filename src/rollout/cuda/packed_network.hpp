// A network's weights in the order in which a rollout kernel reads them.
//
// A linear layer is transposed, (inputs, outputs): the threads that compute neighbouring outputs read
// neighbouring weights.
#pragma once

#include <mac/host_device.hpp>
#include <vector>

namespace mac {

struct NetworkShape;

namespace cuda {

struct PackedNetwork {
  bool mamba;
  int d_in, d_out, d_model, blocks, d_inner, d_state, rank;

  MAC_HOST_DEVICE int projected() const { return rank + 2 * d_state; }
  /// Numbers of a block's recurrent state.
  MAC_HOST_DEVICE int block_state() const { return mamba ? (3 + d_state) * d_inner : d_model; }

  struct Block {
    int norm;  // weight, bias
    // Mamba: conv_weight (4, d_inner), A log₂e (d_state, d_inner)
    int in_proj, conv_weight, conv_bias, x_proj, step_weight, step_bias, A, D, out_proj;
    // GRU
    int input, input_bias, hidden, hidden_bias;
  };
  MAC_HOST_DEVICE int block_size() const {
    return mamba ? 2 * d_model + d_inner * (3 * d_model + 7 + projected() + rank + d_state)
                 : 2 * d_model + 6 * d_model * (d_model + 1);
  }

  // Offsets in the packed array; a linear layer's bias follows its weight.
  MAC_HOST_DEVICE int input() const { return 0; }
  MAC_HOST_DEVICE int first_block() const { return d_model * (d_in + 1); }
  MAC_HOST_DEVICE Block block(int i) const {
    int next = first_block() + i * block_size();
    const auto take = [&next](int count) {
      const int start = next;
      next += count;
      return start;
    };
    Block at{};
    at.norm = take(2 * d_model);
    if (mamba) {
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

PackedNetwork packed_network(const NetworkShape& shape);
std::vector<float> pack_parameters(const NetworkShape& shape, const std::vector<float>& parameters);

}  // namespace cuda

}  // namespace mac
