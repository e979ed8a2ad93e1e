#include "network/kinds/gru/cuda/packed_layer.hpp"

#include "network/cuda/packing.hpp"
#include "network/kinds/gru/layer.hpp"

namespace mac::gru {

void PackedLayer::pack(const NetworkShape& shape, const float* layer, cuda::Packer& packer) {
  const Sizes s(shape);
  const auto w = view(s, layer);
  packer.linear(w.input, 3 * s.d, s.d);
  packer.linear(w.hidden, 3 * s.d, s.d);
}

}  // namespace mac::gru
