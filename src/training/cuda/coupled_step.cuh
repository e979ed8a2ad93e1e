// The coupled step of all chains and its gradient as kernels: between network passes (coupled_chains.hpp).
#pragma once

#include "training/cuda/coupled_chain.cuh"

namespace mac::cuda {

inline constexpr int coupled_threads = 128;  // of a block

/// A thread for each chain.
template <int Room, class Equations>
__global__ void __launch_bounds__(coupled_threads)
    coupled_step_kernel(const Equations equations, const RolloutProblem p, const CoupledArrays at,
                        double* z_next, float* x_next, double* errors) {
  const int chain = static_cast<int>(blockIdx.x * coupled_threads + threadIdx.x);
  if (chain >= p.chains()) return;
  const std::size_t offset = static_cast<std::size_t>(chain) * p.d,
                    input = static_cast<std::size_t>(chain) * p.inputs();
  step_chain<Room>(equations, p, at, chain, errors, [&](int v, double value) {
    z_next[offset + v] = value;
    if (x_next) x_next[input + v] = static_cast<float>(p.input.to_network(v, value));
  });
  const std::size_t next = static_cast<std::size_t>(p.window(chain)) * p.states + p.time(chain) + at.s + 1;
  for (int k = 0; k < p.given && x_next; ++k) x_next[input + p.d + k] = at.given[next * p.given + k];
}

/// lanes_of(Room) lanes for each chain.
template <int Room, class Equations>
__global__ void __launch_bounds__(coupled_threads)
    coupled_adjoint_kernel(const Equations equations, const RolloutProblem p, const CoupledArrays at,
                           const double* z_next, const double* slopes, const double* d_z, const float* d_x,
                           double* d_z_before, double* d_own, double* d_previous) {
  constexpr int lanes = lanes_of(Room);
  const int thread = static_cast<int>(blockIdx.x * coupled_threads + threadIdx.x), lane = thread % lanes;
  const bool valid = thread / lanes < p.chains();
  const int chain = valid ? thread / lanes : p.chains() - 1;  // all lanes of a warp exchange values
  const std::size_t offset = static_cast<std::size_t>(chain) * p.d,
                    input = static_cast<std::size_t>(chain) * p.inputs();
  step_chain_back<Room>(
      equations, p, at, chain, lane, z_next, slopes,
      [&](int v) {
        return d_z ? d_z[offset + v] + static_cast<double>(d_x[input + v]) * p.input.factor[v] : 0.0;
      },
      [&](double of_z, double own, double before) {
        if (!valid) return;
        d_z_before[offset + lane] = of_z;
        if (const int j = p.drives[lane]; j >= 0) {
          d_own[static_cast<std::size_t>(chain) * p.c + j] = own;
          d_previous[static_cast<std::size_t>(chain) * p.c + j] = before;
        }
      });
}

}  // namespace mac::cuda
