#include "network/kinds/engines.hpp"

#include "network/kinds/mamba/cpu/block.hpp"
#include "network/kinds/mamba/onnx.hpp"
#include "network/kinds/mamba/reference.hpp"

namespace mac::mamba {

const LayerEngines& engines() {
  static const LayerEnginesOf<Sizes, Activations, Block> engines;
  return engines;
}

}  // namespace mac::mamba
