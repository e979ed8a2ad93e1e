// The networks of the paper's four systems: for each one of every kind, of about the same number of
// parameters. Of those with tuned kernels, the CUDA engine has kernels that are compiled for exactly these
// sizes: it takes them from here.
#pragma once

#include <mac/network.hpp>
#include <span>
#include <string_view>

namespace mac {

struct PaperNetwork {
  std::string_view system;  // burgers, kdv, lorenz96, power_grid
  NetworkShape shape;
  bool tuned;  // kernels for the CUDA engine
};

inline constexpr PaperNetwork paper_networks[] = {
    {"burgers", {LayerKind::mamba, 6, 6, 22, 4, 12}, true},
    {"burgers", {LayerKind::gru, 6, 6, 28, 4, 0}, true},
    {"burgers", {LayerKind::mlp, 6, 6, 34, 4, 0}, false},
    {"burgers", {LayerKind::lstm, 6, 6, 28, 3, 0}, false},
    {"burgers", {LayerKind::oscillator, 6, 6, 22, 4, 6}, false},
    {"kdv", {LayerKind::mamba, 6, 6, 24, 2, 12}, true},
    {"kdv", {LayerKind::gru, 6, 6, 30, 2, 0}, true},
    {"kdv", {LayerKind::mlp, 6, 6, 36, 2, 0}, false},
    {"kdv", {LayerKind::lstm, 6, 6, 26, 2, 0}, false},
    {"kdv", {LayerKind::oscillator, 6, 6, 24, 2, 6}, false},
    {"lorenz96", {LayerKind::mamba, 8, 8, 63, 3, 16}, true},
    {"lorenz96", {LayerKind::gru, 8, 8, 62, 4, 0}, true},
    {"lorenz96", {LayerKind::mlp, 8, 8, 87, 3, 0}, false},
    {"lorenz96", {LayerKind::lstm, 8, 8, 76, 2, 0}, false},
    {"lorenz96", {LayerKind::oscillator, 8, 8, 63, 3, 8}, false},
    {"power_grid", {LayerKind::mamba, 3, 2, 10, 3, 16}, true},
    {"power_grid", {LayerKind::gru, 3, 2, 16, 3, 0}, true},
    {"power_grid", {LayerKind::mlp, 3, 2, 17, 4, 0}, false},
    {"power_grid", {LayerKind::lstm, 3, 2, 14, 3, 0}, false},
    {"power_grid", {LayerKind::oscillator, 3, 2, 10, 3, 8}, false},
};

/// Null for a system that the paper does not have.
constexpr const PaperNetwork* find_paper_network(std::string_view system, LayerKind kind) {
  for (const PaperNetwork& network : paper_networks)
    if (network.system == system && network.shape.kind == kind) return &network;
  return nullptr;
}

/// Throws UsageError for a system that the paper does not have.
NetworkShape paper_network(std::string_view system, LayerKind kind);

}  // namespace mac
