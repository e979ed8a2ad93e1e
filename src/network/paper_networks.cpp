#include <mac/error.hpp>
#include <mac/paper_networks.hpp>

namespace mac {

namespace {

constexpr PaperNetwork networks[] = {
    {"burgers", {LayerKind::mamba, 6, 6, 22, 4, 12}},    {"burgers", {LayerKind::gru, 6, 6, 28, 4, 0}},
    {"kdv", {LayerKind::mamba, 6, 6, 24, 2, 12}},        {"kdv", {LayerKind::gru, 6, 6, 30, 2, 0}},
    {"lorenz96", {LayerKind::mamba, 8, 8, 63, 3, 16}},   {"lorenz96", {LayerKind::gru, 8, 8, 62, 4, 0}},
    {"power_grid", {LayerKind::mamba, 3, 2, 10, 3, 16}}, {"power_grid", {LayerKind::gru, 3, 2, 16, 3, 0}},
};

}  // namespace

std::span<const PaperNetwork> paper_networks() { return networks; }

NetworkShape paper_network(std::string_view system, LayerKind kind) {
  for (const PaperNetwork& network : networks)
    if (network.system == system && network.shape.kind == kind) return network.shape;
  throw UsageError("unknown system '{}': expected burgers, kdv, lorenz96 or power_grid", system);
}

}  // namespace mac
