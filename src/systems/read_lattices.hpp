// Lattices of a system that comes from elsewhere, as its table says them:
//
//   lattices = { u = { edges = "periodic" } }                          u1, u2, ... on a ring
//   lattices = { T = { extents = [4, 8], edges = ["nearest", "periodic"], variables = ["T0_0", ...] } }
#pragma once

#include <mac/config.hpp>
#include <mac/system.hpp>

namespace mac {

/// Throws UsageError naming the key. Variables left out are those whose names are the lattice's and a number.
std::vector<Lattice> read_lattices(const ConfigTable& table, const std::vector<std::string>& resolved_names);

}  // namespace mac
