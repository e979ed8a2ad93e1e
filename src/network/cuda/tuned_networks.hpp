// The networks that kernels are compiled for: those of <mac/paper_networks.hpp> that are tuned. A kernel
// takes the sizes from there, and keeps for each system how it is launched.
#pragma once

#include <cstddef>
#include <mac/paper_networks.hpp>
#include <string_view>
#include <utility>

#include "network/cuda/launch_plan.hpp"

namespace mac::cuda {

constexpr std::size_t tuned_count(LayerKind kind) {
  std::size_t count = 0;
  for (const PaperNetwork& network : paper_networks) count += network.tuned && network.shape.kind == kind;
  return count;
}

/// 0, 1, .. for the tuned networks of a kind.
template <LayerKind KIND>
using TunedNetworks = std::make_index_sequence<tuned_count(KIND)>;

/// Number i of them.
constexpr PaperNetwork tuned_network(LayerKind kind, std::size_t i) {
  for (const PaperNetwork& network : paper_networks)
    if (network.tuned && network.shape.kind == kind && i-- == 0) return network;
  throw "there is no such network";  // does not compile
}

/// How a kernel of fixed sizes is launched.
struct Tuning {
  std::string_view system;
  int length, threads, blocks;
  Run run;
  bool overlap = true;  // of the Mamba's backward pass
};

template <std::size_t N>
constexpr Tuning tuning_for(const Tuning (&tunings)[N], std::string_view system) {
  for (const Tuning& tuning : tunings)
    if (tuning.system == system) return tuning;
  throw "a tuned network has no tuning here";  // does not compile
}

}  // namespace mac::cuda
