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

__device__ CoupledArrays arrays_of(const ChainRollout& run, int s) {
  const std::size_t chains = static_cast<std::size_t>(run.problem.chains()), d = run.problem.d,
                    c = run.problem.c;
  return {s, run.z + s * chains * d, run.y + s * chains * c, run.y + (s - 1) * chains * c, run.truth};
}

/// The coupled step of a chain; its new state also to `y`, (variable, trajectory). Compiled once for all kernels.
__device__ __noinline__ void advance(const ChainRollout& run, int s, int chain, double* y, int group) {
  const RolloutProblem& p = run.problem;
  run.equations.visit<any_room>(p.d, [&](const auto& equations, auto room) {
    double* const next = run.z + (static_cast<std::size_t>(s + 1) * p.chains() + chain) * p.d;
    step_chain<decltype(room)::value>(equations, p, arrays_of(run, s), chain, run.errors,
                                      [&](int v, double value) {
                                        next[v] = value;
                                        y[v * group] = value;
                                      });
  });
}

/// Lanes that a chain takes in `retreat`.
__device__ int retreat_lanes(const ChainRollout& run) {
  int lanes = 0;
  run.equations.visit<any_room>(run.problem.d,
                                [&](const auto&, auto room) { lanes = lanes_of(decltype(room)::value); });
  return lanes;
}

/// The gradient of that step, by retreat_lanes: d_z (variable, trajectory) of the state after it becomes that of the
/// state before, d_own and d_previous (closure, trajectory) are overwritten. d_x is that of the network's next input;
/// where the chain does not exist nothing is written.
__device__ __noinline__ void retreat(const ChainRollout& run, int s, int chain, bool exists, int lane,
                                     double* d_z, const float* d_x, double* d_own, double* d_previous,
                                     int group) {
  const RolloutProblem& p = run.problem;
  run.equations.visit<any_room>(p.d, [&](const auto& equations, auto room) {
    const double* const next = run.z + static_cast<std::size_t>(s + 1) * p.chains() * p.d;
    step_chain_back<decltype(room)::value>(
        equations, p, arrays_of(run, s), chain, lane, next, run.slopes,
        [&](int v) { return d_z[v * group] + static_cast<double>(d_x[v * group]) * p.input.factor[v]; },
        [&](double of_z, double own, double before) {
          if (!exists) return;
          d_z[lane * group] = of_z;
          if (const int j = p.drives[lane]; j >= 0) d_own[j * group] = own, d_previous[j * group] = before;
        });
  });
}

/// The chains of a block of threads: `group` of one model, of which the last may not exist.
struct Members {
  int model, first, existing;  // first: among the model's chains

  __device__ Members(const ChainRollout& run, int place, int group) {
    const int chains = run.problem.chains() / run.models, groups = (chains + group - 1) / group;
    model = place / groups;
    first = place % groups * group;
    existing = min(group, chains - first);
  }
  __device__ int member(int g) const { return first + min(g, existing - 1); }
  /// Number of the sequence, and of the chain: chains are ordered by t, then by window of all models.
  __device__ std::size_t sequence(const ChainRollout& run, int g) const {
    return static_cast<std::size_t>(model) * (run.problem.chains() / run.models) + member(g);
  }
  __device__ int chain(const ChainRollout& run, int g) const {
    const int windows = run.problem.windows / run.models, i = member(g);
    return run.problem.chain(model * windows + i % windows, i / windows);
  }
};

__device__ int places(const ChainRollout& run, int group) {
  const int chains = run.problem.chains() / run.models;
  return run.models * ((chains + group - 1) / group);
}

/// Where a step's rows lie on the tape: (step, place, row, trajectory).
template <class Net>
__device__ float* tape_of(const ChainRollout& run, const Net& net, int s, int place, int group) {
  const std::size_t numbers = static_cast<std::size_t>(tape_rows(net)) * group;
  return run.tape + (static_cast<std::size_t>(s - 1) * places(run, group) + place) * numbers;
}

/// Weights of a model: in shared memory, where that has room for them.
template <bool SHARED, class Net>
__device__ const float* weights_of(const ChainRollout& run, const Net& net, int model, float* room) {
  const float* const from = run.weights + static_cast<std::size_t>(model) * net.size();
  if constexpr (!SHARED) return from;
  load(room, from, net.size());
  return room;
}

struct ForwardLayout {
  SharedLayout shared;
  StepRooms step;
  int y;  // double: the state

  template <class Net>
  __host__ __device__ ForwardLayout(const Net& net, int group, bool shared_weights)
      : step(shared, net, group, shared_weights, Net::Layer::work_rows(net)),
        y(shared.take(2 * net.d_in * group)) {}
};

template <class Net, int GROUP, bool SHARED_WEIGHTS, int THREADS>
__global__ void __launch_bounds__(THREADS) chains_kernel(const ChainRollout run) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  constexpr int group = GROUP, tile = GROUP % 4 == 0 ? 4 : 1;
  const Net net(run.network);
  const ForwardLayout at(net, group, SHARED_WEIGHTS);
  const RolloutProblem& p = run.problem;
  const int d = net.d_in, c = net.d_out, states = net.state();
  const std::size_t chains = static_cast<std::size_t>(p.chains());
  double* const z = reinterpret_cast<double*>(shared + at.y);

  for (int place = blockIdx.x; place < places(run, group); place += gridDim.x) {
    const Members members(run, place, group);
    const float* const w = weights_of<SHARED_WEIGHTS>(run, net, members.model, shared + at.step.weights);
    for (int i = threadIdx.x; i < states * group; i += THREADS) {
      const int g = i / states, k = i % states;
      const float value = run.memory[static_cast<std::size_t>(members.chain(run, g)) * states + k];
      shared[at.step.state + k * group + g] = value;
      if (g < members.existing) run.sequence_memory[members.sequence(run, g) * states + k] = value;
    }
    for (int i = threadIdx.x; i < d * group; i += THREADS)
      z[i] = run.z[(chains + members.chain(run, i % group)) * d + i / group];
    __syncthreads();
    for (int s = 1; s < run.steps; ++s) {
      for (int i = threadIdx.x; i < d * group; i += THREADS) {
        const int g = i % group, v = i / group;
        const float value = static_cast<float>(p.input.to_network(v, z[i]));
        shared[at.step.x + i] = value;
        if (g < members.existing) run.x[(members.sequence(run, g) * (run.steps - 1) + s - 1) * d + v] = value;
      }
      __syncthreads();
      float* const y = run.y + s * chains * c;
      step_forward<tile>(shared, at.step, w, net, group, StepTape{tape_of(run, net, s, place, group), group},
                         [&](int o, int first, const Tile<tile>& out) {
                           for (int i = 0; i < tile; ++i)
                             if (first + i < members.existing)
                               y[static_cast<std::size_t>(members.chain(run, first + i)) * c + o] = out.at[i];
                         });
      if (static_cast<int>(threadIdx.x) < members.existing)
        advance(run, s, members.chain(run, threadIdx.x), z + threadIdx.x, group);
      __syncthreads();
    }
  }
}

struct BackwardLayout {
  SharedLayout shared;
  StepRooms step;
  int d_y, tapes;          // tapes: of two steps, or none
  int d_z, own, previous;  // double

  template <class Net>
  __host__ __device__ BackwardLayout(const Net& net, int group, bool shared_weights, bool shared_tape)
      : step(shared, net, group, shared_weights, Net::Layer::gradient_work_rows(net)) {
    d_y = shared.take(net.d_out * group);
    tapes = shared.take(shared_tape ? 2 * tape_rows(net) * group : 0);
    d_z = shared.take(2 * net.d_in * group);
    own = shared.take(2 * net.d_out * group), previous = shared.take(2 * net.d_out * group);
  }
};

template <class Net, int GROUP, bool SHARED_WEIGHTS, bool SHARED_TAPE, int THREADS>
__global__ void __launch_bounds__(THREADS) chains_back_kernel(const ChainRollout run) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  constexpr int group = GROUP, tile = GROUP % 4 == 0 ? 4 : 1;
  const Net net(run.network);
  const BackwardLayout at(net, group, SHARED_WEIGHTS, SHARED_TAPE);
  const RolloutProblem& p = run.problem;
  const int d = net.d_in, c = net.d_out, states = net.state(), tape_numbers = tape_rows(net) * group;
  double* const d_z = reinterpret_cast<double*>(shared + at.d_z);
  double* const own = reinterpret_cast<double*>(shared + at.own);
  double* const previous = reinterpret_cast<double*>(shared + at.previous);
  const int lanes = retreat_lanes(run);

  for (int place = blockIdx.x; place < places(run, group); place += gridDim.x) {
    const Members members(run, place, group);
    const float* const w = weights_of<SHARED_WEIGHTS>(run, net, members.model, shared + at.step.weights);
    /// Starts to bring the tape of step s; steps take turns in two places.
    const auto fetch = [&](int s) {
      if (s < 1) return;
      const float* const from = tape_of(run, net, s, place, group);
      float* const to = shared + at.tapes + s % 2 * tape_numbers;
      for (int i = threadIdx.x; i < tape_numbers / 4; i += THREADS) copy_quad(to + 4 * i, from + 4 * i);
    };
    if constexpr (SHARED_TAPE) fetch(run.steps - 1);
    fill(shared + at.step.state, states * group, 0);
    fill(shared + at.step.x, d * group, 0);
    for (int i = threadIdx.x; i < d * group; i += THREADS) d_z[i] = 0;
    for (int i = threadIdx.x; i < c * group; i += THREADS) previous[i] = 0;
    for (int s = run.steps - 1; s >= 1; --s) {
      float* tape = tape_of(run, net, s, place, group);
      if constexpr (SHARED_TAPE) {
        wait_for_copies();
        tape = shared + at.tapes + s % 2 * tape_numbers;
      }
      __syncthreads();
      if constexpr (SHARED_TAPE) fetch(s - 1);
      // What step s + 1 left for this step's prediction, before the next retreat overwrites it.
      const bool mine = static_cast<int>(threadIdx.x) < c * group;
      const double later = mine ? previous[threadIdx.x] : 0;
      __syncthreads();
      for_each_item(lanes * group, [&](int item) {
        const int g = min(item / lanes, group - 1);
        retreat(run, s, members.chain(run, g), item < lanes * group, item % lanes, d_z + g,
                shared + at.step.x + g, own + g, previous + g, group);
      });
      __syncthreads();
      if (mine) {
        const int g = threadIdx.x % group, j = threadIdx.x / group;
        const float value = static_cast<float>((own[threadIdx.x] + later) * p.output.scale[j]);
        shared[at.d_y + threadIdx.x] = value;
        if (g < members.existing)
          run.d_y[(members.sequence(run, g) * (run.steps - 1) + s - 1) * c + j] = value;
      }
      __syncthreads();
      step_backward<tile>(shared, at.step, w, net, shared + at.d_y, group, tape);
    }
    for (int i = threadIdx.x; i < d * group; i += THREADS) {
      const int g = i % group, v = i / group;
      if (g >= members.existing) continue;
      const std::size_t to = static_cast<std::size_t>(members.chain(run, g)) * d + v;
      run.d_z[to] = d_z[i], run.d_x[to] = shared[at.step.x + i];
    }
    for (int i = threadIdx.x; i < c * group; i += THREADS)
      if (i % group < members.existing)
        run.d_previous[static_cast<std::size_t>(members.chain(run, i % group)) * c + i / group] = previous[i];
    for (int i = threadIdx.x; i < states * group; i += THREADS)
      if (const int g = i / states, k = i % states; g < members.existing)
        run.d_memory[static_cast<std::size_t>(members.chain(run, g)) * states + k] =
            shared[at.step.state + k * group + g];
    __syncthreads();
  }
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
  int group, threads;
};

constexpr int threads_of(int group) { return group == 1 ? 256 : 512; }

template <class Net, int GROUP, bool SHARED_WEIGHTS>
constexpr ChainVariant forward() {
  return {chains_kernel<Net, GROUP, SHARED_WEIGHTS, threads_of(GROUP)>, Net::suits,
          [](const PackedSizes& sizes) {
            return ForwardLayout(Net(sizes), GROUP, SHARED_WEIGHTS).shared.used * sizeof(float);
          },
          GROUP, threads_of(GROUP)};
}
template <class Net, int GROUP, bool SHARED_WEIGHTS, bool SHARED_TAPE>
constexpr ChainVariant backward() {
  return {chains_back_kernel<Net, GROUP, SHARED_WEIGHTS, SHARED_TAPE, threads_of(GROUP)>, Net::suits,
          [](const PackedSizes& sizes) {
            return BackwardLayout(Net(sizes), GROUP, SHARED_WEIGHTS, SHARED_TAPE).shared.used * sizeof(float);
          },
          GROUP, threads_of(GROUP)};
}

using Mamba = PackedLayout<mamba::StepLayer, AnyPackedSizes>;
using Gru = PackedLayout<gru::StepLayer, AnyPackedSizes>;
constexpr NetworkShape burgers_shape = find_paper_network("burgers", LayerKind::mamba)->shape;
using Burgers = PackedLayout<mamba::StepLayer,
                             FixedPackedSizes<burgers_shape.d_in, burgers_shape.d_out, burgers_shape.d_model,
                                              burgers_shape.n_blocks, burgers_shape.d_state>>;

/// Of those with the same group the first that fits is taken.
const ChainVariant forward_variants[] = {
    forward<Mamba, 4, true>(), forward<Gru, 4, true>(),     forward<Mamba, 4, false>(),
    forward<Gru, 4, false>(),  forward<Burgers, 1, true>(), forward<Mamba, 1, true>(),
    forward<Gru, 1, true>(),   forward<Mamba, 1, false>(),  forward<Gru, 1, false>()};
const ChainVariant backward_variants[] = {
    backward<Mamba, 4, true, true>(),   backward<Gru, 4, true, true>(),
    backward<Mamba, 4, true, false>(),  backward<Gru, 4, true, false>(),
    backward<Mamba, 4, false, false>(), backward<Gru, 4, false, false>(),
    backward<Burgers, 1, true, true>(), backward<Mamba, 1, true, true>(),
    backward<Gru, 1, true, true>(),     backward<Mamba, 1, false, true>(),
    backward<Gru, 1, false, true>(),    backward<Mamba, 1, false, false>(),
    backward<Gru, 1, false, false>()};

/// Index of the first variant for groups of that size that fits.
template <std::size_t COUNT>
std::optional<int> first_fitting(const ChainVariant (&variants)[COUNT], const PackedSizes& network, int group,
                                 const SharedMemory& shared) {
  for (std::size_t i = 0; i < COUNT; ++i)
    if (variants[i].group == group && variants[i].suits(network) &&
        variants[i].bytes(network) <= shared.per_block)
      return static_cast<int>(i);
  return std::nullopt;
}

void launch(const ChainVariant& variant, std::size_t bytes, const ChainRollout& run, cudaStream_t stream) {
  const int groups = (run.chains_of_model() + variant.group - 1) / variant.group;
  allow_shared_memory(variant.kernel, bytes);
  variant.kernel<<<static_cast<unsigned>(run.models * groups), variant.threads, bytes, stream>>>(run);
}

}  // namespace

std::optional<ChainLaunch> choose_chain_launch(const PackedSizes& network, int models, int chains,
                                               const SharedMemory& shared, int processors) {
  for (const int group : {4, 1}) {
    if (group > 1 && models * chains < group * processors) continue;  // would leave multiprocessors idle
    const auto forward = first_fitting(forward_variants, network, group, shared),
               backward = first_fitting(backward_variants, network, group, shared);
    if (forward && backward)
      return ChainLaunch{*forward, *backward, group, forward_variants[*forward].bytes(network),
                         backward_variants[*backward].bytes(network)};
  }
  return std::nullopt;
}

std::size_t tape_numbers(const PackedSizes& network, int chains, int steps) {
  const int rows = network.kind == LayerKind::mamba ? tape_rows(Mamba(network)) : tape_rows(Gru(network));
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(round_up(chains, 4)) *
         static_cast<std::size_t>(steps - 1);
}

void launch_chains(const ChainRollout& run, const ChainLaunch& at, cudaStream_t stream) {
  launch(forward_variants[at.forward], at.forward_bytes, run, stream);
}
void launch_chains_back(const ChainRollout& run, const ChainLaunch& at, cudaStream_t stream) {
  launch(backward_variants[at.backward], at.backward_bytes, run, stream);
}

void launch_pack(const float* parameters, std::size_t parameter_count, const int* places, int count,
                 int models, float* packed, cudaStream_t stream) {
  constexpr int threads = 256;
  const dim3 grid(static_cast<unsigned>((count + threads - 1) / threads), static_cast<unsigned>(models));
  pack_kernel<<<grid, threads, 0, stream>>>(parameters, parameter_count, places, count, packed);
}

}  // namespace mac::cuda
