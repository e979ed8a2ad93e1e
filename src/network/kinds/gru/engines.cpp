#include "network/kinds/engines.hpp"

#include "network/kinds/gru/cpu/block.hpp"
#include "network/kinds/gru/graph.hpp"
#include "network/kinds/gru/reference.hpp"

namespace mac::gru {

const LayerEngines& engines() {
  static const LayerEnginesOf<Sizes, Activations, Block> engines;
  return engines;
}

}  // namespace mac::gru
