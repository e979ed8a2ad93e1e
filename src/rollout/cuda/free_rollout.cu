// A block takes a group of trajectories through all steps. Weights (where they fit) and recurrent states stay
// in shared memory; activations are (channel, trajectory), TILE trajectories to a thread.
#include <mac/paper_networks.hpp>

#include "coupling/coupled_rk4.hpp"
#include "network/cuda/columns.cuh"
#include "network/cuda/shared_layout.cuh"
#include "rollout/cuda/free_rollout.hpp"

namespace mac::cuda {

namespace {

/// TILE numbers, one for each of neighbouring trajectories.
template <int TILE>
struct Tile {
  float at[TILE];

  __device__ static Tile load(const float* from) {
    Tile tile;
    if constexpr (TILE == 4) {
      const float4 quad = quad_at(from);
      tile.at[0] = quad.x, tile.at[1] = quad.y, tile.at[2] = quad.z, tile.at[3] = quad.w;
    } else {
      tile.at[0] = *from;
    }
    return tile;
  }
  __device__ void store(float* to) const {
    if constexpr (TILE == 4)
      quad_at(to) = {at[0], at[1], at[2], at[3]};
    else
      *to = at[0];
  }
  __device__ static Tile splat(float value) {
    Tile tile;
    for (float& x : tile.at) x = value;
    return tile;
  }
  template <class F>
  __device__ Tile map(F f) const {
    Tile tile;
#pragma unroll
    for (int i = 0; i < TILE; ++i) tile.at[i] = f(at[i]);
    return tile;
  }
  template <class F>
  __device__ static Tile map(const Tile& a, const Tile& b, F f) {
    Tile tile;
#pragma unroll
    for (int i = 0; i < TILE; ++i) tile.at[i] = f(a.at[i], b.at[i]);
    return tile;
  }
  __device__ void fma(float w, const Tile& x) {
#pragma unroll
    for (int i = 0; i < TILE; ++i) at[i] = fmaf(w, x.at[i], at[i]);
  }
  /// The sum over `lanes` neighbouring threads, in all of them.
  __device__ void sum_over(int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2)
#pragma unroll
      for (int i = 0; i < TILE; ++i) at[i] += __shfl_xor_sync(0xffffffffu, at[i], step);
  }
};

/// Places in shared memory, in floats; rows are `group` trajectories long.
struct Layout {
  int weights, state, h, u, a, b, projected, x, closure, previous, y;
  int total;

  template <class Net>
  __host__ __device__ Layout(const Net& net, int group, bool shared_weights) {
    SharedLayout shared;
    const int wide = net.mamba() ? net.d_inner : 3 * net.d_model;
    weights = shared.take(shared_weights ? net.size() : 0);
    state = shared.take(net.blocks * net.block_state() * group);
    h = shared.take(net.d_model * group), u = shared.take(net.d_model * group);
    a = shared.take(wide * group), b = shared.take(wide * group);
    projected = shared.take(net.mamba() ? net.projected() * group : 0);
    x = shared.take(net.d_in * group);
    closure = shared.take(2 * net.d_out * group), previous = shared.take(2 * net.d_out * group);  // double
    y = shared.take(2 * net.d_in * group);
    total = shared.used;
  }
};

/// Calls f(i) for i < count on all threads of the block; warps stay whole: f is also called for some i >=
/// count.
template <class F>
__device__ void for_each_item(int count, F f) {
  for (int i = threadIdx.x; i < round_up(count, 32); i += blockDim.x) f(i);
}

/// finish(o, first trajectory, Σ_i w[i][o] in[i]), LANES threads to a sum.
template <int TILE, int LANES, class Finish>
__device__ void dense(const float* w, const float* in, int inputs, int outputs, int group, Finish finish) {
  const int count = LANES * outputs * (group / TILE);
  for_each_item(count, [&](int item) {
    const int lane = item % LANES, at = min(item, count - 1) / LANES, o = at % outputs,
              g = at / outputs * TILE;
    auto sum = Tile<TILE>::splat(0);
#pragma unroll 4
    for (int i = lane; i < inputs; i += LANES)
      sum.fma(w[i * outputs + o], Tile<TILE>::load(in + i * group + g));
    sum.sum_over(LANES);
    if (lane == 0 && item < count) finish(o, g, sum);
  });
}

/// to = LayerNorm(from), eight threads to a trajectory.
__device__ void layer_norm(float* to, const float* from, const float* weight, int d, int group) {
  const int count = 8 * group;
  for_each_item(count, [&](int item) {
    const int lane = item % 8, g = min(item, count - 1) / 8;
    float total = 0;
    for (int i = lane; i < d; i += 8) total += from[i * group + g];
    for (int step = 4; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
    const float mean = total / static_cast<float>(d);
    float squares = 0;
    for (int i = lane; i < d; i += 8) {
      const float distance = from[i * group + g] - mean;
      squares = fmaf(distance, distance, squares);
    }
    for (int step = 4; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    const float scale = 1 / sqrtf(squares / static_cast<float>(d) + 1e-5f);
    if (item >= count) return;
    for (int i = lane; i < d; i += 8)
      to[i * group + g] = fmaf((from[i * group + g] - mean) * scale, weight[i], weight[d + i]);
  });
}

template <int TILE, class Net>
__device__ void mamba_block(float* shared, const Layout& at, const float* w, const Net& net,
                            const PackedBlock& of, float* state, int group) {
  using T = Tile<TILE>;
  const int inner = net.d_inner, N = net.d_state, rank = net.rank;
  float* const v = shared + at.a;
  float* const gate = shared + at.b;
  float* const projected = shared + at.projected;
  // in_proj; the thread that has x_t goes on to the convolution.
  dense<TILE, 2>(w + of.in_proj, shared + at.u, net.d_model, 2 * inner, group, [&](int o, int g, T sum) {
    if (o >= inner) {
      sum.map([](float z) { return silu(z); }).store(gate + (o - inner) * group + g);
      return;
    }
    float* const window = state + o * group + g;
    const int row = inner * group;
    const T x0 = T::load(window), x1 = T::load(window + row), x2 = T::load(window + 2 * row);
    const float* const weight = w + of.conv_weight + o;
    T c = T::splat(w[of.conv_bias + o]);
    c.fma(weight[3 * inner], sum), c.fma(weight[2 * inner], x2), c.fma(weight[inner], x1),
        c.fma(weight[0], x0);
    c.map([](float value) { return silu(value); }).store(v + o * group + g);
    x1.store(window), x2.store(window + row), sum.store(window + 2 * row);
  });
  __syncthreads();
  dense<TILE, 4>(w + of.x_proj, v, inner, net.projected(), group,
                 [&](int o, int g, T sum) { sum.store(projected + o * group + g); });
  __syncthreads();
  // Four threads to a channel, each with every fourth state.
  const int count = 4 * inner * (group / TILE);
  for_each_item(count, [&](int item) {
    const int lane = item % 4, place = min(item, count - 1) / 4, c = place % inner, g = place / inner * TILE;
    T delta = T::splat(w[of.step_bias + c]);
    for (int r = 0; r < rank; ++r)
      delta.fma(w[of.step_weight + r * inner + c], T::load(projected + r * group + g));
    delta = delta.map([](float value) { return softplus(value); });
    const T input = T::load(v + c * group + g);
    T p = T::splat(0);
    const int states = item < count ? N : 0;  // no thread reads what another one writes
    for (int n = lane; n < states; n += 4) {
      float* const s = state + (3 + n) * inner * group + c * group + g;
      const float A = w[of.A + n * inner + c];
      const T B = T::load(projected + (rank + n) * group + g),
              C = T::load(projected + (rank + N + n) * group + g);
      T now = T::load(s);
#pragma unroll
      for (int i = 0; i < TILE; ++i) {
        now.at[i] = fmaf(exp2_approx(delta.at[i] * A), now.at[i], delta.at[i] * B.at[i] * input.at[i]);
        p.at[i] = fmaf(C.at[i], now.at[i], p.at[i]);
      }
      now.store(s);
    }
    p.sum_over(4);
    if (lane != 0 || item >= count) return;
    p.fma(w[of.D + c], input);
    T::map(p, T::load(gate + c * group + g), [](float a, float b) {
      return a * b;
    }).store(gate + c * group + g);
  });
  __syncthreads();
  float* const h = shared + at.h;
  dense<TILE, 4>(w + of.out_proj, gate, inner, net.d_model, group, [&](int o, int g, T sum) {
    T::map(sum, T::load(h + o * group + g), [](float a, float b) { return a + b; }).store(h + o * group + g);
  });
}

template <int TILE, class Net>
__device__ void gru_block(float* shared, const Layout& at, const float* w, const Net& net,
                          const PackedBlock& of, float* state, int group) {
  using T = Tile<TILE>;
  const int d = net.d_model;
  float* const of_input = shared + at.a;
  float* const of_hidden = shared + at.b;
  const auto gates = [&](int weight, int bias, const float* in, float* out) {
    dense<TILE, 2>(w + weight, in, d, 3 * d, group, [&](int o, int g, const T& sum) {
      sum.map([&](float value) { return value + w[bias + o]; }).store(out + o * group + g);
    });
  };
  gates(of.input, of.input_bias, shared + at.u, of_input);
  gates(of.hidden, of.hidden_bias, state, of_hidden);
  __syncthreads();
  const int count = d * (group / TILE);
  for (int item = threadIdx.x; item < count; item += blockDim.x) {
    const int o = item % d, g = item / d * TILE;
    const auto gate = [&](const float* gates, int k) { return T::load(gates + (k * d + o) * group + g); };
    const auto add_sigmoid = [](float a, float b) { return sigmoid(a + b); };
    const T r = T::map(gate(of_input, 0), gate(of_hidden, 0), add_sigmoid),
            z = T::map(gate(of_input, 1), gate(of_hidden, 1), add_sigmoid), in = gate(of_input, 2),
            hidden = gate(of_hidden, 2);
    T now = T::load(state + o * group + g), h = T::load(shared + at.h + o * group + g);
#pragma unroll
    for (int i = 0; i < TILE; ++i) {
      const float n = tanhf(fmaf(r.at[i], hidden.at[i], in.at[i]));
      now.at[i] = fmaf(z.at[i], now.at[i] - n, n);
      h.at[i] += now.at[i];
    }
    now.store(state + o * group + g), h.store(shared + at.h + o * group + g);
  }
}

/// x (normalised) -> closure, both for the whole group; ends with a barrier.
template <int TILE, class Net>
__device__ void predict(float* shared, const Layout& at, const float* w, const RolloutRun& run,
                        const Net& net, int group) {
  using T = Tile<TILE>;
  const int d = net.d_model;
  float* const h = shared + at.h;
  float* const u = shared + at.u;
  dense<TILE, 1>(w + net.input(), shared + at.x, net.d_in, d, group, [&](int o, int g, const T& sum) {
    const float bias = w[net.input() + net.d_in * d + o];
    sum.map([&](float value) { return silu(value + bias); }).store(h + o * group + g);
  });
  __syncthreads();
  for (int i = 0; i < net.blocks; ++i) {
    const PackedBlock of = net.block(i);
    layer_norm(u, h, w + of.norm, d, group);
    __syncthreads();
    float* const state = shared + at.state + i * net.block_state() * group;
    if (net.mamba())
      mamba_block<TILE>(shared, at, w, net, of, state, group);
    else
      gru_block<TILE>(shared, at, w, net, of, state, group);
    __syncthreads();
  }
  layer_norm(u, h, w + net.norm(), d, group);
  __syncthreads();
  dense<TILE, 4>(w + net.hidden(), u, d, d, group, [&](int o, int g, const T& sum) {
    const float bias = w[net.hidden() + d * d + o];
    sum.map([&](float value) { return silu(value + bias); }).store(h + o * group + g);
  });
  __syncthreads();
  double* const closure = reinterpret_cast<double*>(shared + at.closure);
  dense<TILE, 4>(w + net.output(), h, d, net.d_out, group, [&](int o, int g, const T& sum) {
    const float bias = w[net.output() + d * net.d_out + o];
    for (int i = 0; i < TILE; ++i)
      closure[o * group + g + i] = run.output.to_physical(o, static_cast<double>(sum.at[i] + bias));
  });
  __syncthreads();
}

/// One trajectory's RK4 step, d resolved variables; variable v is driven by closure run.drives[v], so that
/// with D known at compile time everything stays in registers.
template <int D, class Equations>
__device__ void advance(const Equations& equations, const RolloutRun& run, int d, double* y,
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

/// The paper's systems with their sizes known at compile time, others with room for any.
__device__ void advance(const RolloutRun& run, double* y, const double* closure, const double* previous,
                        int group) {
  const auto with = [&](const auto& equations) {
    constexpr int any = most_rolled_variables,
                  of_paper = std::decay_t<decltype(equations)>::variables_of_paper;
    const int d = run.network.d_in;
    if (d == of_paper)
      advance<of_paper>(equations, run, of_paper, y, closure, previous, group);
    else
      advance<any>(equations, run, d, y, closure, previous, group);
  };
  const DeviceEquations& of = run.equations;
  switch (of.kind) {
    case DeviceEquations::Kind::ring:
      return with(of.ring);
    case DeviceEquations::Kind::modes:
      return with(of.modes);
    case DeviceEquations::Kind::grid:
      return with(of.grid);
  }
}

/// Records step n of trajectory g of the group, and advances it unless the step is the last.
__device__ void finish_step(float* shared, const Layout& at, const RolloutRun& run, int n, int g,
                            int trajectory, int group) {
  const int d = run.network.d_in, c = run.network.d_out;
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
    advance(run, y, closure, run.offset + n > 0 ? previous : nullptr, group);
    if (n + 1 <= run.history)  // still reading the true past
      for (int v = 0; v < d; ++v)
        y[v * group] = run.truth[(static_cast<std::size_t>(trajectory) * (run.history + 1) + n + 1) * d + v];
  }
  for (int j = 0; j < c; ++j) previous[j * group] = closure[j * group];
}

template <class Net, int GROUP, bool SHARED_WEIGHTS, int THREADS>
__global__ void __launch_bounds__(THREADS) free_rollout_kernel(const RolloutRun run) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  constexpr int group = GROUP, tile = GROUP % 4 == 0 ? 4 : 1;
  const Net net(run.network);
  const Layout at(net, group, SHARED_WEIGHTS);
  if constexpr (SHARED_WEIGHTS)
    for (int i = threadIdx.x; i < net.size(); i += THREADS) shared[at.weights + i] = run.weights[i];
  const float* const w = SHARED_WEIGHTS ? shared + at.weights : run.weights;
  const int d = net.d_in, c = net.d_out, states = net.blocks * net.block_state();
  double* const y = reinterpret_cast<double*>(shared + at.y);
  double* const closure = reinterpret_cast<double*>(shared + at.closure);
  double* const previous = reinterpret_cast<double*>(shared + at.previous);

  for (int first = blockIdx.x * group; first < run.count; first += gridDim.x * group) {
    const int existing = min(group, run.count - first);
    // Trajectories beyond the last repeat it and write nothing.
    const auto exchange = [&](auto* shared_rows, auto* rows, int width, bool load) {
      for (int i = threadIdx.x; i < width * group; i += THREADS) {
        const int g = i / width, k = i % width;
        if (load)
          shared_rows[k * group + g] =
              rows[static_cast<std::size_t>(first + min(g, existing - 1)) * width + k];
        else if (g < existing)
          rows[static_cast<std::size_t>(first + g) * width + k] = shared_rows[k * group + g];
      }
    };
    exchange(y, run.y, d, true);
    exchange(previous, run.previous, c, true);
    exchange(closure, run.closure, c, true);
    exchange(shared + at.state, run.recurrent, states, true);
    __syncthreads();
    for (int n = run.first; n < run.end; ++n) {
      if (n > 0 || !run.continued) {
        for (int i = threadIdx.x; i < d * group; i += THREADS)
          shared[at.x + i] = static_cast<float>(run.input.to_network(i / group, y[i]));
        __syncthreads();
        predict<tile>(shared, at, w, run, net, group);
      }
      if (static_cast<int>(threadIdx.x) < existing)
        finish_step(shared, at, run, n, threadIdx.x, first + threadIdx.x, group);
      __syncthreads();
    }
    exchange(y, run.y, d, false);
    exchange(previous, run.previous, c, false);
    exchange(shared + at.state, run.recurrent, states, false);
    __syncthreads();
  }
}

struct RolloutVariant {
  void (*kernel)(RolloutRun);
  bool (*suits)(const PackedSizes&);
  int group, threads;
  bool shared_weights;
};

template <class Net, int GROUP, bool SHARED_WEIGHTS>
constexpr RolloutVariant variant(bool (*suits)(const PackedSizes&)) {
  constexpr int threads = GROUP == 1 ? 256 : 512;
  return {free_rollout_kernel<Net, GROUP, SHARED_WEIGHTS, threads>, suits, GROUP, threads, SHARED_WEIGHTS};
}
template <int GROUP, bool SHARED_WEIGHTS>
constexpr RolloutVariant any() {
  return variant<PackedNetwork, GROUP, SHARED_WEIGHTS>([](const PackedSizes&) { return true; });
}
constexpr NetworkShape burgers_shape = find_paper_network("burgers", LayerKind::mamba)->shape;
using Burgers = FixedPackedSizes<burgers_shape.d_in, burgers_shape.d_out, burgers_shape.d_model,
                                 burgers_shape.n_blocks, burgers_shape.d_state>;
template <int GROUP>
constexpr RolloutVariant burgers() {
  return variant<PackedLayout<Burgers>, GROUP, true>(Burgers::suits);
}

/// From large groups to small ones; the first of several with equal groups is taken.
const RolloutVariant variants[] = {burgers<12>(),  any<12, true>(), any<4, true>(), burgers<1>(),
                                   any<1, true>(), any<4, false>(), any<1, false>()};

std::size_t bytes_of(const RolloutVariant& variant, const PackedNetwork& net) {
  return static_cast<std::size_t>(Layout(net, variant.group, variant.shared_weights).total) * sizeof(float);
}

// One for each of ReducedEquations: a new kind without its own does not compile.
void set(DeviceEquations& out, const LorenzRing& of) {
  out.kind = DeviceEquations::Kind::ring, out.ring = of;
}
void set(DeviceEquations& out, const FourierModes& of) {
  out.kind = DeviceEquations::Kind::modes, out.modes = of;
}
void set(DeviceEquations& out, const GridBuses& of) { out.kind = DeviceEquations::Kind::grid, out.grid = of; }

}  // namespace

DeviceEquations device_equations(const ReducedEquations& equations) {
  DeviceEquations out{};
  std::visit([&](const auto& of) { set(out, of); }, equations.of);
  return out;
}

std::optional<RolloutLaunch> choose_launch(const PackedNetwork& network, int count,
                                           const SharedMemory& shared, int processors) {
  std::optional<RolloutLaunch> launch;
  for (const RolloutVariant& variant : variants) {
    const std::size_t bytes = bytes_of(variant, network);
    if (bytes > shared.per_block || !variant.suits(network)) continue;
    if (launch && variants[launch->variant].shared_weights && !variant.shared_weights) break;
    const int groups = (count + variant.group - 1) / variant.group;
    launch = {static_cast<int>(&variant - variants), std::min(groups, processors), bytes};
    if (count > (variant.group - 1) * processors) break;
  }
  return launch;
}

void launch_rollout(const RolloutRun& run, const RolloutLaunch& launch, cudaStream_t stream) {
  const RolloutVariant& variant = variants[launch.variant];
  allow_shared_memory(variant.kernel, launch.bytes);
  variant.kernel<<<launch.blocks, variant.threads, launch.bytes, stream>>>(run);
}

}  // namespace mac::cuda
