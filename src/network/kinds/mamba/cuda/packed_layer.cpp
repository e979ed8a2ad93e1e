#include "network/kinds/mamba/cuda/packed_layer.hpp"

#include "network/cuda/packing.hpp"
#include "network/kinds/mamba/layer.hpp"

namespace mac::mamba {

void PackedLayer::pack(const NetworkShape& shape, const float* layer, cuda::Packer& packer) {
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

}  // namespace mac::mamba
