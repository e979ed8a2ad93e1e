// What the parts of the memory models share.
#pragma once

#include <cmath>
#include <vector>

namespace mac {

/// x = theta / sigma with sigma_k = e^{-k} for phi_k and psi_k: the width of the measure behind the kernels.
inline std::vector<double> memory_scales(std::size_t variables) {
  std::vector<double> sigma;
  for (std::size_t l = 0; l < variables; ++l)
    sigma.push_back(std::exp(-static_cast<double>(l % (variables / 2) + 1)));
  return sigma;
}

}  // namespace mac
