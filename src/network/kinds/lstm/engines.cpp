#include "network/kinds/engines.hpp"

#include "network/kinds/lstm/cpu/block.hpp"
#include "network/kinds/lstm/graph.hpp"
#include "network/kinds/lstm/reference.hpp"

namespace mac::lstm {

const LayerEngines& engines() {
  static const LayerEnginesOf<Sizes, Activations, Block> engines;
  return engines;
}

}  // namespace mac::lstm
