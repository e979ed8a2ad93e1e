// The kernels of chain_rollout.hpp. `Equations` is DeviceEquations, or OwnEquations where they are compiled at run time.
#pragma once

#include "network/cuda/network_step.cuh"
#include "network/kinds/gru/cuda/step.cuh"
#include "network/kinds/mamba/cuda/step.cuh"
#include "training/cuda/chain_rollout.hpp"
#include "training/cuda/coupled_chain.cuh"

namespace mac::cuda {

inline constexpr int any_room = static_cast<int>(most_variables);
inline constexpr int chain_threads = 256;  // of a block

__device__ inline CoupledArrays arrays_of(const ChainRollout& run, int s) {
  const std::size_t chains = static_cast<std::size_t>(run.problem.chains()), d = run.problem.d,
                    c = run.problem.c;
  return {s, run.z + s * chains * d, run.y + s * chains * c, run.y + (s - 1) * chains * c, run.truth};
}

/// The coupled step of a chain; its new state also to `next`. Compiled once for all kernels.
template <class Equations>
__device__ __noinline__ void advance(const Equations& all, const ChainRollout& run, int s, int chain,
                                     double* next) {
  const RolloutProblem& p = run.problem;
  all.template visit<any_room>(p.d, [&](const auto& equations, auto room) {
    double* const z = run.z + (static_cast<std::size_t>(s + 1) * p.chains() + chain) * p.d;
    step_chain<decltype(room)::value>(equations, p, arrays_of(run, s), chain, run.errors,
                                      [&](int v, double value) { z[v] = next[v] = value; });
  });
}

/// The gradient of that step, by the first warp: d_z (d) of the state after it becomes that of the state before, d_own and
/// d_previous (c) are overwritten. d_x is that of the network's next input.
template <class Equations>
__device__ __noinline__ void retreat(const Equations& all, const ChainRollout& run, int s, int chain,
                                     double* d_z, const float* d_x, double* d_own, double* d_previous) {
  const RolloutProblem& p = run.problem;
  all.template visit<any_room>(p.d, [&](const auto& equations, auto room) {
    constexpr int lanes = lanes_of(decltype(room)::value);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % lanes;
    const double* const next = run.z + static_cast<std::size_t>(s + 1) * p.chains() * p.d;
    step_chain_back<decltype(room)::value>(
        equations, p, arrays_of(run, s), chain, lane, next, run.slopes,
        [&](int v) { return d_z[v] + static_cast<double>(d_x[v]) * p.input.factor[v]; },
        [&](double of_z, double own, double before) {
          if (thread >= lanes) return;
          d_z[lane] = of_z;
          if (const int j = p.drives[lane]; j >= 0) d_own[j] = own, d_previous[j] = before;
        });
  });
}

/// Where a step's rows lie on the tape: (step, chain, row).
template <class Net>
__device__ float* tape_of(const ChainRollout& run, const Net& net, int s, int chain) {
  return run.tape + (static_cast<std::size_t>(s - 1) * run.problem.chains() + chain) * tape_rows(net);
}

/// Weights of the chain's model: in shared memory, where that has room for them.
template <bool SHARED, class Net>
__device__ const float* weights_of(const ChainRollout& run, const Net& net, int chain, float* room) {
  const float* const from =
      run.weights + static_cast<std::size_t>(chain / run.problem.chains_of_model()) * net.size();
  if constexpr (!SHARED) return from;
  load(room, from, net.size());
  return room;
}

struct ForwardLayout {
  SharedLayout shared;
  StepRooms step;
  int z;  // double: the state

  template <class Net>
  __host__ __device__ ForwardLayout(const Net& net, bool shared_weights)
      : step(shared, net, 1, shared_weights, Net::Layer::work_rows(net)), z(shared.take(2 * net.d_in)) {}
};

template <class Net, bool SHARED_WEIGHTS, class Equations>
__global__ void __launch_bounds__(chain_threads)
    chains_kernel(const ChainRollout run, const Equations equations) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  const Net net(run.network);
  const ForwardLayout at(net, SHARED_WEIGHTS);
  const RolloutProblem& p = run.problem;
  const int d = net.d_in, c = net.d_out, chain = static_cast<int>(blockIdx.x),
            thread = static_cast<int>(threadIdx.x);
  const std::size_t chains = static_cast<std::size_t>(p.chains()), own = static_cast<std::size_t>(chain);
  double* const z = reinterpret_cast<double*>(shared + at.z);
  const float* const w = weights_of<SHARED_WEIGHTS>(run, net, chain, shared + at.step.weights);
  load(shared + at.step.state, run.memory + own * net.state(), net.state());
  if (thread < d) z[thread] = run.z[(chains + own) * d + thread];
  __syncthreads();
  for (int s = 1; s < run.steps; ++s) {
    if (thread < d) {
      const float value = static_cast<float>(p.input.to_network(thread, z[thread]));
      shared[at.step.x + thread] = value;
      run.x[(own * (run.steps - 1) + s - 1) * d + thread] = value;
    }
    __syncthreads();
    float* const y = run.y + (s * chains + own) * c;
    step_forward<1>(shared, at.step, w, net, 1, StepTape{tape_of(run, net, s, chain), 1},
                    [&](int o, int, const Tile<1>& out) { y[o] = out.at[0]; });
    if (thread == 0) advance(equations, run, s, chain, z);
    __syncthreads();
  }
}

struct BackwardLayout {
  SharedLayout shared;
  StepRooms step;
  int d_y, tapes;          // tapes: of two steps, or none
  int d_z, own, previous;  // double

  template <class Net>
  __host__ __device__ BackwardLayout(const Net& net, bool shared_weights, bool shared_tape)
      : step(shared, net, 1, shared_weights, Net::Layer::gradient_work_rows(net)) {
    d_y = shared.take(net.d_out);
    tapes = shared.take(shared_tape ? 2 * tape_rows(net) : 0);
    d_z = shared.take(2 * net.d_in);
    own = shared.take(2 * net.d_out), previous = shared.take(2 * net.d_out);
  }
};

template <class Net, bool SHARED_WEIGHTS, bool SHARED_TAPE, class Equations>
__global__ void __launch_bounds__(chain_threads)
    chains_back_kernel(const ChainRollout run, const Equations equations) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  const Net net(run.network);
  const BackwardLayout at(net, SHARED_WEIGHTS, SHARED_TAPE);
  const RolloutProblem& p = run.problem;
  const int d = net.d_in, c = net.d_out, rows = tape_rows(net);
  const int chain = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const std::size_t own_chain = static_cast<std::size_t>(chain);
  double* const d_z = reinterpret_cast<double*>(shared + at.d_z);
  double* const own = reinterpret_cast<double*>(shared + at.own);
  double* const previous = reinterpret_cast<double*>(shared + at.previous);
  const float* const w = weights_of<SHARED_WEIGHTS>(run, net, chain, shared + at.step.weights);
  /// Starts to bring the tape of step s; steps take turns in two places.
  const auto fetch = [&](int s) {
    if (s < 1) return;
    const float* const from = tape_of(run, net, s, chain);
    float* const to = shared + at.tapes + s % 2 * rows;
    for (int i = 4 * thread; i < rows; i += 4 * chain_threads) copy_quad(to + i, from + i);
  };
  if constexpr (SHARED_TAPE) fetch(run.steps - 1);
  fill(shared + at.step.state, net.state(), 0);
  fill(shared + at.step.x, d, 0);
  if (thread < d) d_z[thread] = 0;
  if (thread < c) previous[thread] = 0;
  for (int s = run.steps - 1; s >= 1; --s) {
    float* tape = tape_of(run, net, s, chain);
    if constexpr (SHARED_TAPE) {
      wait_for_copies();
      tape = shared + at.tapes + s % 2 * rows;
    }
    __syncthreads();
    if constexpr (SHARED_TAPE) fetch(s - 1);
    if (thread < 32) {
      // What step s + 1 left for this step's prediction, before the retreat overwrites it.
      const double later = thread < c ? previous[thread] : 0;
      __syncwarp();
      retreat(equations, run, s, chain, d_z, shared + at.step.x, own, previous);
      __syncwarp();
      if (thread < c) {
        const float value = static_cast<float>((own[thread] + later) * p.output.scale[thread]);
        shared[at.d_y + thread] = value;
        run.d_y[(own_chain * (run.steps - 1) + s - 1) * c + thread] = value;
      }
    }
    __syncthreads();
    step_backward<1>(shared, at.step, w, net, shared + at.d_y, 1, tape);
  }
  if (thread < d) {
    run.d_z[own_chain * d + thread] = d_z[thread];
    run.d_x[own_chain * d + thread] = shared[at.step.x + thread];
  }
  if (thread < c) run.d_previous[own_chain * c + thread] = previous[thread];
  for (int i = thread; i < net.state(); i += chain_threads)
    run.d_memory[own_chain * net.state() + i] = shared[at.step.state + i];
}

}  // namespace mac::cuda
