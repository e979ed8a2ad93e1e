// One chain's coupled step and its gradient, for the kernels that take all chains a step on and for those that take a
// chain through all steps.
#pragma once

#include <mac/dual.hpp>

#include "coupling/coupled_rk4.hpp"
#include "training/cuda/rollout_problem.hpp"

namespace mac::cuda {

/// The number of variables: `Room`, known at compile time, unless that is the room for any.
template <int Room>
__device__ int variables(const RolloutProblem& p) {
  return Room < static_cast<int>(most_variables) ? Room : p.d;
}

/// What one chain's step reads: its own prediction and the one before, if there is one. Every variable has a
/// closure, zero where none drives it, so that with a known number of variables everything is in registers.
template <int Room>
struct ChainClosures {
  double closure[Room], previous[Room];
  std::size_t targets[Room];
  bool has_previous;

  __device__ ChainClosures(const RolloutProblem& p, const CoupledArrays& at, int chain) {
    const int t = p.time(chain);
    has_previous = at.s > 0 || t > 0;
    const float* const now = at.y + static_cast<std::size_t>(chain) * p.c;
    const float* const before =
        at.s > 0 ? at.previous_y + static_cast<std::size_t>(chain) * p.c
                 : at.y + static_cast<std::size_t>(t > 0 ? p.chain(p.window(chain), t - 1) : chain) * p.c;
    for (int v = 0; v < variables<Room>(p); ++v) {
      const int j = p.drives[v];
      closure[v] = j < 0 ? 0 : p.output.to_physical(j, static_cast<double>(now[j]));
      previous[v] = j < 0 ? 0 : p.output.to_physical(j, static_cast<double>(before[j]));
      targets[v] = static_cast<std::size_t>(v);
    }
  }
  __device__ CoupledRk4 integrator(const RolloutProblem& p) const {
    const auto d = static_cast<std::size_t>(variables<Room>(p));
    return {d, d, targets, p.dt, {has_previous ? p.held.hold : Hold::zero, p.held.target}};
  }
};

__device__ inline const double* true_state(const RolloutProblem& p, const CoupledArrays& at, int chain) {
  return at.truth + (static_cast<std::size_t>(p.window(chain)) * p.states + p.time(chain) + at.s + 1) * p.d;
}

/// The chain's state after step s; its squared errors are added to errors (chain, d), or put there by step 0.
template <int Room, class Equations, class Store>
__device__ void step_chain(const Equations& equations, const RolloutProblem& p, const CoupledArrays& at,
                           int chain, double* errors, Store store) {
  const int d = variables<Room>(p);
  const std::size_t offset = static_cast<std::size_t>(chain) * d;
  const ChainClosures<Room> closures(p, at, chain);
  const CoupledRk4 rk4 = closures.integrator(p);
  double y[Room];
  for (int v = 0; v < d; ++v) y[v] = at.z[offset + v];
  const auto rhs = [&](const double* state, double* rate) { equations.reduced_rhs(rk4.d, state, rate); };
  rk4.step<Room>(rhs, closures.closure, closures.previous, y);
  const double* const truth = true_state(p, at, chain);
  for (int v = 0; v < d; ++v) {
    const double error = (y[v] - truth[v]) * p.input.factor[v];
    errors[offset + v] = error * error + (at.s > 0 ? errors[offset + v] : 0);
    store(v, y[v]);
  }
}

/// Lanes of a chain in the adjoint: a power of two, so that they shuffle among themselves.
__host__ __device__ constexpr int lanes_of(int room) { return room <= 8 ? 8 : 32; }

/// The gradient of step s of a chain, by lanes_of(Room) lanes; whole warps. All compute the same; each brings its own
/// column of the Jacobian. later(v) is the gradient of variable v of z_next through later steps; leave(d_z, d_own,
/// d_previous) gets the lane's variable's: of z, and of its closure and the one before.
template <int Room, class Equations, class Later, class Leave>
__device__ void step_chain_back(const Equations& equations, const RolloutProblem& p, const CoupledArrays& at,
                                int chain, int lane, const double* z_next, const double* slopes, Later later,
                                Leave leave) {
  const int d = variables<Room>(p);
  const std::size_t offset = static_cast<std::size_t>(chain) * d;
  const ChainClosures<Room> closures(p, at, chain);
  const CoupledRk4 rk4 = closures.integrator(p);
  const double* const truth = true_state(p, at, chain);
  double y[Room], d_next[Room], d_y[Room], own[Room], before[Room];
  for (int v = 0; v < d; ++v) {
    y[v] = at.z[offset + v];
    d_next[v] = slopes[p.window(chain) * d + v] * (z_next[offset + v] - truth[v]) * p.input.factor[v] *
                    p.input.factor[v] +
                later(v);
    d_y[v] = 0, own[v] = 0, before[v] = 0;
  }
  __syncwarp();  // `leave` may overwrite what `later` reads
  const auto rhs = [&](const double* state, double* rate) { equations.reduced_rhs(rk4.d, state, rate); };
  const auto add_vjp = [&](const double* state, const double* adjoint, double* grad) {
    Dual<1> point[Room], image[Room];
    for (int v = 0; v < d; ++v) {
      point[v] = Dual<1>(state[v]);
      point[v].partial[0] = v == lane ? 1 : 0;
    }
    equations.reduced_rhs(rk4.d, static_cast<const Dual<1>*>(point), image);
    double mine = 0;
    for (int v = 0; v < d; ++v) mine += image[v].partial[0] * adjoint[v];
    for (int v = 0; v < d; ++v) grad[v] += __shfl_sync(0xffffffffu, mine, v, lanes_of(Room));
  };
  rk4.adjoint<Room>(rhs, add_vjp, closures.closure, closures.previous, y, d_next, d_y, own, before);
  for (int v = 0; v < d; ++v)
    if (v == lane) leave(d_y[v], own[v], before[v]);
}

}  // namespace mac::cuda
