#include <mac/paper_networks.hpp>

#include "network/cuda/network_step.cuh"
#include "network/kinds/gru/cuda/step.cuh"
#include "network/kinds/mamba/cuda/step.cuh"
#include "network/kinds/mamba/decay_rate.hpp"
#include "training/cuda/chain_rollout.hpp"
#include "training/cuda/coupled_chain.cuh"

namespace mac::cuda {

namespace {

constexpr int any_room = static_cast<int>(most_variables);
constexpr int threads = 256;  // of a block

__device__ CoupledArrays arrays_of(const ChainRollout& run, int s) {
  const std::size_t chains = static_cast<std::size_t>(run.problem.chains()), d = run.problem.d,
                    c = run.problem.c;
  return {s, run.z + s * chains * d, run.y + s * chains * c, run.y + (s - 1) * chains * c, run.truth};
}

/// The coupled step of a chain; its new state also to `next`. Compiled once for all kernels.
__device__ __noinline__ void advance(const ChainRollout& run, int s, int chain, double* next) {
  const RolloutProblem& p = run.problem;
  run.equations.visit<any_room>(p.d, [&](const auto& equations, auto room) {
    double* const z = run.z + (static_cast<std::size_t>(s + 1) * p.chains() + chain) * p.d;
    step_chain<decltype(room)::value>(equations, p, arrays_of(run, s), chain, run.errors,
                                      [&](int v, double value) { z[v] = next[v] = value; });
  });
}

/// The gradient of that step, by the first warp: d_z (d) of the state after it becomes that of the state before, d_own and
/// d_previous (c) are overwritten. d_x is that of the network's next input.
__device__ __noinline__ void retreat(const ChainRollout& run, int s, int chain, double* d_z, const float* d_x,
                                     double* d_own, double* d_previous) {
  const RolloutProblem& p = run.problem;
  run.equations.visit<any_room>(p.d, [&](const auto& equations, auto room) {
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

template <class Net, bool SHARED_WEIGHTS>
__global__ void __launch_bounds__(threads) chains_kernel(const ChainRollout run) {
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
    if (thread == 0) advance(run, s, chain, z);
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

template <class Net, bool SHARED_WEIGHTS, bool SHARED_TAPE>
__global__ void __launch_bounds__(threads) chains_back_kernel(const ChainRollout run) {
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
    for (int i = 4 * thread; i < rows; i += 4 * threads) copy_quad(to + i, from + i);
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
      retreat(run, s, chain, d_z, shared + at.step.x, own, previous);
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
  for (int i = thread; i < net.state(); i += threads)
    run.d_memory[own_chain * net.state() + i] = shared[at.step.state + i];
}

__global__ void pack_kernel(const float* parameters, std::size_t parameter_count, const int* places,
                            int count, float* packed) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const float* const of_model = parameters + blockIdx.y * parameter_count;
  const int place = places[i];
  packed[static_cast<std::size_t>(blockIdx.y) * count + i] =
      place >= 0 ? of_model[place] : mamba::decay_rate(of_model[~place]);
}

struct ChainVariant {
  void (*kernel)(ChainRollout);
  bool (*suits)(const PackedSizes&);
  std::size_t (*bytes)(const PackedSizes&);
  bool shared_weights;
};

template <class Net, bool SHARED_WEIGHTS>
constexpr ChainVariant forward() {
  return {chains_kernel<Net, SHARED_WEIGHTS>, Net::suits,
          [](const PackedSizes& sizes) {
            return ForwardLayout(Net(sizes), SHARED_WEIGHTS).shared.used * sizeof(float);
          },
          SHARED_WEIGHTS};
}
template <class Net, bool SHARED_WEIGHTS, bool SHARED_TAPE>
constexpr ChainVariant backward() {
  return {chains_back_kernel<Net, SHARED_WEIGHTS, SHARED_TAPE>, Net::suits,
          [](const PackedSizes& sizes) {
            return BackwardLayout(Net(sizes), SHARED_WEIGHTS, SHARED_TAPE).shared.used * sizeof(float);
          },
          SHARED_WEIGHTS};
}

using Mamba = PackedLayout<mamba::StepLayer, AnyPackedSizes>;
using Gru = PackedLayout<gru::StepLayer, AnyPackedSizes>;
constexpr NetworkShape burgers_shape = find_paper_network("burgers", LayerKind::mamba)->shape;
using Burgers = PackedLayout<mamba::StepLayer,
                             FixedPackedSizes<burgers_shape.d_in, burgers_shape.d_out, burgers_shape.d_model,
                                              burgers_shape.n_blocks, burgers_shape.d_state>>;

/// The first that fits is taken.
const ChainVariant forward_variants[] = {forward<Burgers, true>(), forward<Mamba, true>(),
                                         forward<Gru, true>(), forward<Mamba, false>(),
                                         forward<Gru, false>()};
const ChainVariant backward_variants[] = {backward<Burgers, true, true>(), backward<Mamba, true, true>(),
                                          backward<Gru, true, true>(),     backward<Mamba, false, true>(),
                                          backward<Gru, false, true>(),    backward<Mamba, false, false>(),
                                          backward<Gru, false, false>()};

template <std::size_t COUNT>
std::optional<int> first_fitting(const ChainVariant (&variants)[COUNT], const PackedSizes& network,
                                 const SharedMemory& shared) {
  for (std::size_t i = 0; i < COUNT; ++i)
    if (variants[i].suits(network) && variants[i].bytes(network) <= shared.per_block)
      return static_cast<int>(i);
  return std::nullopt;
}

void launch(const ChainVariant& variant, std::size_t bytes, const ChainRollout& run, cudaStream_t stream) {
  allow_shared_memory(variant.kernel, bytes);
  variant.kernel<<<static_cast<unsigned>(run.problem.chains()), threads, bytes, stream>>>(run);
}

}  // namespace

std::optional<ChainLaunch> choose_chain_launch(const PackedSizes& network, const SharedMemory& shared,
                                               int processors) {
  const auto forward = first_fitting(forward_variants, network, shared),
             backward = first_fitting(backward_variants, network, shared);
  if (!forward || !backward) return std::nullopt;
  const ChainVariant &there = forward_variants[*forward], &back = backward_variants[*backward];
  // On an H200 the engine catches up at 2,000 chains of Burgers' networks, at 300 to 500 of those for Lorenz '96.
  const int waves = there.shared_weights && back.shared_weights ? 16 : 2;
  return ChainLaunch{*forward, *backward, there.bytes(network), back.bytes(network),
                     static_cast<std::size_t>(waves * processors)};
}

std::size_t tape_numbers(const PackedSizes& network, std::size_t steps) {
  const int rows = network.kind == LayerKind::mamba ? tape_rows(Mamba(network)) : tape_rows(Gru(network));
  return static_cast<std::size_t>(rows) * (steps - 1);
}

void launch_chains(const ChainRollout& run, const ChainLaunch& at, cudaStream_t stream) {
  launch(forward_variants[at.forward], at.forward_bytes, run, stream);
}
void launch_chains_back(const ChainRollout& run, const ChainLaunch& at, cudaStream_t stream) {
  launch(backward_variants[at.backward], at.backward_bytes, run, stream);
}

void launch_pack(const float* parameters, std::size_t parameter_count, const int* places, int count,
                 int models, float* packed, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((count + threads - 1) / threads), static_cast<unsigned>(models));
  pack_kernel<<<grid, threads, 0, stream>>>(parameters, parameter_count, places, count, packed);
}

}  // namespace mac::cuda
