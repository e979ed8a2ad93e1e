#include <mac/error.hpp>
#include <mac/paper_networks.hpp>

namespace mac {

NetworkShape paper_network(std::string_view system, LayerKind kind) {
  if (const PaperNetwork* network = find_paper_network(system, kind)) return network->shape;
  throw UsageError("unknown system '{}': expected burgers, kdv, lorenz96 or power_grid", system);
}

}  // namespace mac
