// The networks of the paper: for each system a Mamba and a GRU of about the same number of parameters.
#pragma once

#include <mac/network.hpp>
#include <span>
#include <string_view>

namespace mac {

struct PaperNetwork {
  std::string_view system;  // burgers, kdv, lorenz96, power_grid
  NetworkShape shape;
};

/// All eight.
std::span<const PaperNetwork> paper_networks();

/// Throws UsageError for a system that the paper does not have.
NetworkShape paper_network(std::string_view system, LayerKind kind);

}  // namespace mac
