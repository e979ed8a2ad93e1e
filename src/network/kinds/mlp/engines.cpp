#include "network/kinds/engines.hpp"

#include "network/kinds/mlp/cpu/block.hpp"
#include "network/kinds/mlp/graph.hpp"
#include "network/kinds/mlp/reference.hpp"

namespace mac::mlp {

const LayerEngines& engines() {
  static const LayerEnginesOf<Sizes, Activations, Block> engines;
  return engines;
}

}  // namespace mac::mlp
