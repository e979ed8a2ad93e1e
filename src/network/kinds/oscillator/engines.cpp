#include "network/kinds/engines.hpp"

#include "network/kinds/oscillator/cpu/block.hpp"
#include "network/kinds/oscillator/onnx.hpp"
#include "network/kinds/oscillator/reference.hpp"

namespace mac::oscillator {

const LayerEngines& engines() {
  static const LayerEnginesOf<Sizes, Activations, Block> engines;
  return engines;
}

}  // namespace mac::oscillator
