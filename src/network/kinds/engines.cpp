#include "network/kinds/engines.hpp"

#include <mac/error.hpp>

namespace mac {

const LayerEngines& engines_of(LayerKind kind) {
#define MAC_KIND(name)  \
  case LayerKind::name: \
    return name::engines();
  switch (kind) { MAC_LAYER_KINDS(MAC_KIND) }
#undef MAC_KIND
  throw Error("no kind of layer has the number {}", static_cast<int>(kind));
}

}  // namespace mac
