// A block takes a group of trajectories through all steps. Weights (where they fit) and recurrent states stay in
// shared memory. Those of an ensemble come and go: its members take the step one after the other.
// `Equations` is DeviceEquations, or OwnEquations where they are compiled at run time.
#pragma once

#include "coupling/coupled_rk4.hpp"
#include "network/cuda/network_step.cuh"
#include "network/kinds/gru/cuda/step.cuh"
#include "network/kinds/mamba/cuda/step.cuh"
#include "rollout/cuda/free_rollout.hpp"

namespace mac::cuda {

/// Places in shared memory: a step's, and the trajectory's own.
struct RolloutLayout {
  SharedLayout shared;
  StepRooms step;
  int closure, previous, y;  // double

  template <class Net>
  __host__ __device__ RolloutLayout(const Net& net, int d, int group, bool shared_weights)
      : step(shared, net, group, shared_weights, Net::Layer::work_rows(net)) {
    closure = shared.take(2 * net.d_out * group), previous = shared.take(2 * net.d_out * group);
    y = shared.take(2 * d * group);
  }
};

/// One trajectory's RK4 step, d resolved variables; variable v is driven by closure run.drives[v], so that
/// with D known at compile time everything stays in registers.
template <int D, class System>
__device__ void advance_with_room(const System& equations, const RolloutRun& run, int d, double* y,
                                  const double* closure, const double* previous, int group) {
  double state[D], now[D], before[D];
  std::size_t targets[D];
  for (int v = 0; v < d; ++v) {
    const int j = run.drives[v];
    state[v] = y[v * group];
    now[v] = j < 0 ? 0 : closure[j * group];
    before[v] = j < 0 || !previous ? 0 : previous[j * group];
    targets[v] = static_cast<std::size_t>(v);
  }
  const auto count = static_cast<std::size_t>(d);
  const HeldClosure held{previous ? run.held.hold : Hold::zero, run.held.target};
  const CoupledRk4 rk4{count, count, targets, run.dt, held};
  rk4.step<D>([&](const double* at, double* rate) { equations.reduced_rhs(count, at, rate); }, now, before,
              state);
  for (int v = 0; v < d; ++v) y[v * group] = state[v];
}

template <class Equations>
__device__ void advance(const Equations& all, const RolloutRun& run, int trajectory, double* y,
                        const double* closure, const double* previous, int group) {
  const int d = run.d;
  all.of(run.equations_of, trajectory)
      .template visit<most_rolled_variables>(d, [&](const auto& equations, auto room) {
        constexpr int D = decltype(room)::value;
        advance_with_room<D>(equations, run, D == most_rolled_variables ? d : D, y, closure, previous, group);
      });
}

/// Records step n of trajectory g of the group, and advances it unless the step is the last.
template <class Equations>
__device__ void finish_step(float* shared, const RolloutLayout& at, const Equations& equations,
                            const RolloutRun& run, int n, int g, int trajectory, int group) {
  const int d = run.d, c = run.network.d_out;
  double* const y = reinterpret_cast<double*>(shared + at.y) + g;
  double* const closure = reinterpret_cast<double*>(shared + at.closure) + g;
  double* const previous = reinterpret_cast<double*>(shared + at.previous) + g;
  const std::size_t row = static_cast<std::size_t>(trajectory) * run.times + n;
  bool sound = true;
  for (int v = 0; v < d; ++v) sound = sound && fabs(y[v * group]) < run.bound;
  for (int j = 0; j < c; ++j) sound = sound && fabs(closure[j * group]) < run.bound;
  if (!sound && run.blow_up[trajectory] < 0) run.blow_up[trajectory] = n;
  const bool blown = run.blow_up[trajectory] >= 0;
  const double nan = __longlong_as_double(0x7ff8000000000000LL);
  for (int v = 0; v < d; ++v) {
    if (blown) y[v * group] = 0;  // the results are NaN, the arithmetic stays finite
    run.resolved[row * d + v] = blown ? nan : y[v * group];
  }
  for (int j = 0; j < c; ++j) {
    if (blown) closure[j * group] = 0;
    run.predicted[row * c + j] = blown ? nan : closure[j * group];
  }
  if (n + 1 < run.times) {
    advance(equations, run, trajectory, y, closure, run.offset + n > 0 ? previous : nullptr, group);
    if (n + 1 <= run.history)  // still reading the true past
      for (int v = 0; v < d; ++v)
        y[v * group] = run.truth[(static_cast<std::size_t>(trajectory) * (run.history + 1) + n + 1) * d + v];
  }
  for (int j = 0; j < c; ++j) previous[j * group] = closure[j * group];
}

/// Trajectories that a thread takes at once.
__host__ __device__ constexpr int tile_of(int group) { return group % 4 == 0 ? 4 : 1; }

template <class Net, int GROUP, bool SHARED_WEIGHTS, int MOST_THREADS, class Equations>
__global__ void __launch_bounds__(MOST_THREADS)
    free_rollout_kernel(const RolloutRun run, const Equations equations) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  constexpr int group = GROUP, tile = tile_of(GROUP);
  const Net net(run.network);
  const RolloutLayout at(net, run.d, group, SHARED_WEIGHTS);
  const int d = run.d, c = net.d_out, states = net.state();
  const bool ensemble = run.members > 1;
  const auto weights_of = [&](int member) {
    return run.weights + static_cast<std::size_t>(member) * net.size();
  };
  if constexpr (SHARED_WEIGHTS) load(shared + at.step.weights, weights_of(0), net.size());
  double* const y = reinterpret_cast<double*>(shared + at.y);
  double* const closure = reinterpret_cast<double*>(shared + at.closure);
  double* const previous = reinterpret_cast<double*>(shared + at.previous);

  for (int first = blockIdx.x * group; first < run.count; first += gridDim.x * group) {
    const int existing = min(group, run.count - first);
    // Trajectories beyond the last repeat it and write nothing. Rows are part `part` of `parts` of a trajectory.
    const auto exchange = [&](auto* shared_rows, auto* rows, int width, bool load, int part = 0,
                              int parts = 1) {
      const auto row = [&](int g) { return (static_cast<std::size_t>(first + g) * parts + part) * width; };
      for (int i = threadIdx.x; i < width * group; i += blockDim.x) {
        const int g = i / width, k = i % width;
        if (load)
          shared_rows[k * group + g] = rows[row(min(g, existing - 1)) + k];
        else if (g < existing)
          rows[row(g) + k] = shared_rows[k * group + g];
      }
    };
    const auto exchange_memory = [&](int member, bool load) {
      exchange(shared + at.step.state, run.recurrent, states, load, member, run.members);
    };
    /// Input i of trajectory g at step n.
    const auto input_at = [&](int n, int i, int g) {
      const int from = run.reads ? run.reads[i] : i;
      if (from >= 0) return y[from * group + g];
      const std::size_t row = static_cast<std::size_t>(first + min(g, existing - 1)) * run.times + n;
      return run.given[row * run.given_size + ~from];
    };
    exchange(y, run.y, d, true);
    exchange(previous, run.previous, c, true);
    exchange(closure, run.closure, c, true);
    if (!ensemble) exchange_memory(0, true);
    __syncthreads();
    for (int n = run.first; n < run.end; ++n) {
      if (n > 0 || !run.continued) {
        for (int i = threadIdx.x; i < net.d_in * group; i += blockDim.x)
          shared[at.step.x + i] =
              static_cast<float>(run.input.to_network(i / group, input_at(n, i / group, i % group)));
        for (int member = 0; member < run.members; ++member) {
          const float* const w = SHARED_WEIGHTS ? shared + at.step.weights : weights_of(member);
          if (ensemble) {
            if constexpr (SHARED_WEIGHTS) load(shared + at.step.weights, weights_of(member), net.size());
            exchange_memory(member, true);
          }
          __syncthreads();
          const bool last = member + 1 == run.members;
          step_forward<tile>(shared, at.step, w, net, group, NoTape(),
                             [&](int o, int g, const Tile<tile>& out) {
                               for (int i = 0; i < tile; ++i) {
                                 double& to = closure[o * group + g + i];
                                 const double sum = (member > 0 ? to : 0.0) + static_cast<double>(out.at[i]);
                                 to = last ? run.output.to_physical(o, sum) : sum;
                               }
                             });
          if (ensemble) {
            exchange_memory(member, false);
            __syncthreads();
          }
        }
      }
      if (static_cast<int>(threadIdx.x) < existing)
        finish_step(shared, at, equations, run, n, threadIdx.x, first + threadIdx.x, group);
      __syncthreads();
    }
    exchange(y, run.y, d, false);
    exchange(previous, run.previous, c, false);
    if (!ensemble) exchange_memory(0, false);
    __syncthreads();
  }
}

}  // namespace mac::cuda
