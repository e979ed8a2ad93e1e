// Backward pass of the GRU layers, from the last layer to the first and from the last chunk of time to the
// first.
//
// With g_t the gradient of h_t, the gradients before the activations are all multiples of it, whose factors
// the forward pass has left on the tape:
//   d_n = g a_n,  a_n = (1 − z)(1 − n²)     d_r = g a_r,  a_r = a_n q r (1 − r)
//   d_q = g a_q,  a_q = a_n r               d_z = g a_z,  a_z = (h_{t−1} − n) z (1 − z)
// so that the recurrence is only g_{t−1} = d_out_{t−1} + g_t z_t + W_hhᵀ (d_r, d_z, d_q)_t.
//
// While the recurrence walks through a chunk, the helpers take the chunk after it in time, which is done,
// through input weights and layer norm to the layer below, and fetch the one before it.
//
// The weight gradients are sums over time of outer products, which the helpers hold in registers. Layer norm
// gives u = w n + b, n the normalised input, and all of w's, b's and the input weights' gradients follow from
// S_ki = Σ_t d_k n_i and s_k = Σ_t d_k at the end:
//   d_W_ki = w_i S_ki + b_i s_k      d_w_i = Σ_k W_ki S_ki      d_b_i = Σ_k W_ki s_k
#include <array>

#include "network/cuda/tuned_networks.hpp"
#include "network/kinds/gru/cuda/backward_recurrence.cuh"

namespace mac::cuda {

namespace {

using namespace backward;

/// Places in shared memory, in floats.
struct Layout {
  GateGradients gates;
  int norm_weight, norm_bias;
  int input_weight;    // in tiles
  int scales;          // (columns): of the layer norm
  int bias_sums;       // (2, 3 d): of the input and of the recurrent weights
  int S;               // (3 d, d): takes the place of what follows, at the end
  int gate_gradients;  // for two chunks
  int factors;         // rows, for two chunks: a_r, a_z, a_q, a_n, z
  int d_h, before, n;  // rows, for two chunks
  int d_u;             // rows
  int total;

  template <class TimeColumns>
  __host__ __device__ Layout(const GruSizes& s, TimeColumns columns, int read) : gates(s.d_model, read) {
    SharedLayout shared;
    const int d = s.d_model;
    norm_weight = shared.take(d), norm_bias = shared.take(d);
    input_weight = shared.take(tile_floats<8>(d, 3 * d));
    scales = shared.take(4 * columns.quads), bias_sums = shared.take(6 * d);
    S = shared.used;
    gate_gradients = shared.take(2 * 4 * columns.quads * gates.ld);
    const auto rows = [&](int count) { return shared.take(count * columns.stride); };
    factors = rows(10 * d), d_h = rows(2 * d), before = rows(2 * d), n = rows(2 * d), d_u = rows(d);
    total = shared.used > S + 3 * d * d ? shared.used : S + 3 * d * d;
  }
};

/// A helper warp's share of a weight gradient: the tiles of 8 rows first_tile, first_tile + HELPERS, .. by
/// all columns, summed over the steps of all chunks.
template <int UNITS, int HELPERS>
struct WeightGradient {
  static constexpr int row_tiles = tiles_of(tiles_of(3 * UNITS, 8), HELPERS),
                       column_tiles = tiles_of(UNITS, 16);
  TileC sums[row_tiles][column_tiles];  // (column of the weights, row)
  float bias[row_tiles] = {};           // of row lane/4, every fourth step's share

  /// Adds gradient(row, step) · in_i of eight steps from `first` on; `in` are d rows. The tensor cores cut
  /// off instead of rounding, so that they don't add up more than these steps.
  template <class C, class Gradient>
  __device__ void add(const float* in, int d, int first, int first_tile, C columns, Gradient gradient) {
    TileB<CutSplit> right[row_tiles];
#pragma unroll
    for (int j = 0; j < row_tiles; ++j)
      right[j] = TileB<CutSplit>([&](int step, int row) {
        const float x = gradient(min(8 * (first_tile + j * HELPERS) + row, 3 * d - 1), first + step);
        bias[j] += x;
        return x;
      });
#pragma unroll
    for (int i = 0; i < column_tiles; ++i) {
      if (16 * i >= d) continue;
      const TileA<CutSplit> left([&](int channel, int step) {
        return in[min(16 * i + channel, d - 1) * columns.stride + first + step];
      });
#pragma unroll
      for (int j = 0; j < row_tiles; ++j) {
        if (8 * (first_tile + j * HELPERS) >= 3 * d) continue;
        TileC products;
        products.add_product(left, right[j]);
#pragma unroll
        for (int k = 0; k < 4; ++k) sums[j][i].at[k] += products.at[k];
      }
    }
  }

  /// f(row, column, sum).
  template <class F>
  __device__ void for_each(int d, int first_tile, F f) const {
#pragma unroll
    for (int j = 0; j < row_tiles; ++j)
#pragma unroll
      for (int i = 0; i < column_tiles; ++i)
        for_each_sum(sums[j][i], i, d, first_tile + j * HELPERS, 3 * d,
                     [&](int column, int row, float sum) { f(row, column, sum); });
  }
  /// f(row, sum).
  template <class F>
  __device__ void for_each_bias(int d, int first_tile, F f) const {
#pragma unroll
    for (int j = 0; j < row_tiles; ++j) {
      const float sum = sum_of_four_threads(bias[j]);
      const int row = 8 * (first_tile + j * HELPERS) + static_cast<int>(threadIdx.x % 32 / 4);
      if (threadIdx.x % 4 == 0 && row < 3 * d) f(row, sum);
    }
  }
};

/// FIXED: d_model is UNITS, else at most that.
template <int UNITS, bool FIXED, class C, int WARPS, Run RUN>
struct BackwardBlock : GruBlock {
  static constexpr C columns{};
  using Weights = UnitColumns<UNITS>;
  static constexpr int recurrent = Weights::threads / 32, helper_warps = WARPS - recurrent;
  using Roles = GruRoles<recurrent, WARPS>;
  using Gradient = WeightGradient<UNITS, helper_warps>;
  const GruBackward& backward;
  const Layout at;
  float* shared;
  Roles roles{};
  int d, chunks;

  __device__ BackwardBlock(const GruBackward& p, const Stage& s, float* shared)
      : GruBlock(p, s),
        backward(p),
        at(GruSizes{d_of(p)}, columns, Weights::read),
        shared(shared),
        d(d_of(p)),
        chunks(s.chunks(columns.quads)) {}
  static __device__ int d_of(const GruBackward& p) { return FIXED ? UNITS : p.sizes.d_model; }

  // Chunks are numbered in the order of the work: the first is the last in time.
  __device__ int first_quad(int c) const { return (chunks - 1 - c) * columns.quads; }
  __device__ float* rows(int place, int count, int c) const {
    return shared + place + c % 2 * count * columns.stride;
  }
  __device__ float* gates(int c) const {
    return shared + at.gate_gradients + c % 2 * 4 * columns.quads * at.gates.ld;
  }
  __device__ TileView d_h(int c) const { return tensor(backward.d_h, 0, 0, d, first_quad(c)); }
  __device__ float* partial() const {
    return backward.partials + static_cast<size_t>(stage.place) * backward.offsets.size;
  }

  __device__ void load_parameters() const {
    const float* const w = parameters();
    const GruOffsets& of = backward.offsets;
    load(shared + at.norm_weight, w + of.norm_weight, d);
    load(shared + at.norm_bias, w + of.norm_bias, d);
    // The rows of a tile are in the order 0, 2, 4, 6, 1, 3, 5, 7: a thread's two rows are neighbours.
    load_tiles<8>(shared + at.input_weight, d, round_up(3 * d, 8), [&](int o, int k) {
      const int row = k / 8 * 8 + k % 4 * 2 + k % 8 / 4;
      return row < 3 * d ? w[of.input_weight + row * d + o] : 0.0f;
    });
    fill(shared + at.gate_gradients, 2 * 4 * columns.quads * at.gates.ld, 0);
  }

  __device__ void walk_recurrence() const {
    const Weights weights(parameters() + backward.offsets.hidden_weight, roles.thread, d);
    const int unit = min(Weights::unit(roles.thread), d - 1);
    const auto after_sequence = [&](int quad) {
      return backward.d_final_state ? state<RUN>(backward.d_final_state, quad)[unit] : 0;
    };
    float carried = after_sequence(stage.quads - 1);
    const auto before_sequence = [&](int quad) {
      if (backward.d_initial_state && Weights::unit(roles.thread) < d)
        state<RUN>(backward.d_initial_state, quad)[unit] = carried;
    };
    roles.meet_all();  // the first chunk is there
    for (int c = 0; c < chunks; ++c) {
      const RecurrenceRows from{rows(at.d_h, d, c), rows(at.factors, 5 * d, c)};
      const ChunkOfRun<RUN> chunk(backward, stage, chunks - 1 - c, columns.quads);
      recur_back(weights, carried, gates(c), at.gates, from, chunk, after_sequence, before_sequence, roles,
                 columns);
      roles.meet_all();
    }
    before_sequence(0);
    roles.meet_all();  // the gates' gradients are no longer needed
  }

  __device__ void fetch_factors(int c) const {
    load_rows(rows(at.factors, 5 * d, c), tape(first_quad(c)), 5 * d, columns, roles.helpers());
  }
  /// What belongs to a chunk beside what the recurrence reads.
  __device__ void fetch_inputs(int c) const {
    load_rows(rows(at.before, d, c), tape(first_quad(c)).skip_rows(5 * d), d, columns, roles.helpers());
    load_rows(rows(at.n, d, c), h(stage.layer, first_quad(c)), d, columns, roles.helpers());
  }
  /// As soon as the layer above has it.
  __device__ void fetch_gradient(int c, int& seen) const {
    if (roles.helpers().thread == 0) wait_for_upstream(stage, c, seen);
    roles.meet_helpers();
    load_rows(rows(at.d_h, d, c), d_h(c), d, columns, roles.helpers());
  }

  /// d_u = W_ihᵀ (d_r, d_z, d_n): 16 steps by 8 channels at a time.
  __device__ void multiply_input_weights(int c) const {
    constexpr int last = 4 * C::quads - 1;
    const Team team = roles.helpers();
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, ld = at.gates.ld;
    const int k_tiles = tiles_of(3 * d, 8), channel_tiles = tiles_of(d, 8);
    for (int job = team.thread / 32; job < channel_tiles * tiles_of(last + 1, 16); job += team.threads / 32) {
      const int tile = job % channel_tiles, first = job / channel_tiles * 16;
      const float *const upper = gates(c) + min(first + g, last) * ld, *const lower =
                                                                           gates(c) +
                                                                           min(first + g + 8, last) * ld;
      const float* const weight = shared + at.input_weight + tile * k_tiles * 64 + 2 * lane;
      const auto pair_at = [](const float* p) { return *reinterpret_cast<const float2*>(p); };
      TileC large, low_left, low_right;  // three chains instead of one
#pragma unroll 4
      for (int k = 0; k < k_tiles; ++k) {
        const int place = at.gates.of_input(8 * k + 2 * t);
        const float2 x = pair_at(upper + place), y = pair_at(lower + place);
        const TileA<CutSplit> a(float4{x.x, y.x, x.y, y.y});
        const TileB<CutSplit> b(pair_at(weight + 64 * k));
        large.add_product(a.high, b.high);
        low_left.add_product(a.low, b.high), low_right.add_product(a.high, b.low);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) large.at[i] += low_left.at[i] + low_right.at[i];
      large.for_each_pair([&](int step, int channel, float2 values) {
        if (first + step > last) return;
        float* const to = shared + at.d_u + (8 * tile + channel) * columns.stride + first + step;
        if (8 * tile + channel < d) to[0] = values.x;
        if (8 * tile + channel + 1 < d) to[columns.stride] = values.y;
      });
    }
  }

  /// From the gates' gradients to those of the layer's input, for the layer below.
  __device__ void input_backward(int c) const {
    multiply_input_weights(c);
    roles.meet_helpers();
    const TileView to = d_h(c);
    const float* const residual = rows(at.d_h, d, c);
    layer_norm_backward(shared + at.d_u, rows(at.n, d, c), shared + at.scales, shared + at.norm_weight, d,
                        columns, roles.helpers(), [&](int i, int column, float x) {
                          if (to.has(column / 4))
                            __stcg(to.at(column / 4, i) + column % 4,
                                   residual[i * columns.stride + column] + x);
                        });
    roles.meet_helpers();
    if (roles.helpers().thread == roles.helpers().threads - 1) publish_to_downstream(stage, c + 1);
  }

  __device__ void add_weight_gradients(int c, Gradient& of_input, Gradient& of_hidden) const {
    const float *const gates = this->gates(c), *const n = rows(at.n, d, c),
                       *const before = rows(at.before, d, c);
    const int warp = roles.helpers().thread / 32;
#pragma unroll 1
    for (int first = 0; first < 4 * columns.quads; first += 8) {
      of_input.add(n, d, first, warp, columns,
                   [&](int row, int step) { return gates[step * at.gates.ld + at.gates.of_input(row)]; });
      of_hidden.add(before, d, first, warp, columns,
                    [&](int row, int step) { return gates[step * at.gates.ld + row]; });
    }
  }

  __device__ void walk_helper() const {
    Gradient of_input, of_hidden;
    int seen = 0;
    fetch_factors(0);
    fetch_gradient(0, seen);
    wait_for_copies();
    roles.meet_all();
    for (int c = 0; c < chunks; ++c) {
      if (c + 1 < chunks) fetch_factors(c + 1);
      fetch_inputs(c);
      if (c > 0) input_backward(c - 1), add_weight_gradients(c - 1, of_input, of_hidden);
      if (c + 1 < chunks) fetch_gradient(c + 1, seen);
      wait_for_copies();
      roles.meet_helpers();
      float* const n = rows(at.n, d, c);
      normalise(shared + at.scales, n, d, columns, roles.helpers(),
                [&](int i, int column, float x) { n[i * columns.stride + column] = x; });
      roles.meet_all();
    }
    input_backward(chunks - 1), add_weight_gradients(chunks - 1, of_input, of_hidden);

    const int warp = roles.helpers().thread / 32;
    float *const S = shared + at.S, *const bias = shared + at.bias_sums;
    roles.meet_all();  // S takes their place
    float* const d_hidden_weight = partial() + backward.offsets.hidden_weight;
    of_input.for_each(d, warp, [&](int row, int i, float sum) { S[row * d + i] = sum; });
    of_hidden.for_each(d, warp, [&](int row, int i, float sum) { d_hidden_weight[row * d + i] = sum; });
    of_input.for_each_bias(d, warp, [&](int row, float sum) { bias[row] = sum; });
    of_hidden.for_each_bias(d, warp, [&](int row, float sum) { bias[3 * d + row] = sum; });
  }

  /// What follows from S and the sums of the gates' gradients; for all threads.
  __device__ void write_gradients() const {
    const GruOffsets& of = backward.offsets;
    const float *const weight = parameters() + of.input_weight, *const S = shared + at.S,
                       *const s = shared + at.bias_sums;
    float* const to = partial();
    for (int k = threadIdx.x; k < 3 * d; k += blockDim.x)
      to[of.input_bias + k] = s[k], to[of.hidden_bias + k] = s[3 * d + k];
    for (int j = threadIdx.x; j < 3 * d * d; j += blockDim.x)
      to[of.input_weight + j] =
          fmaf(shared[at.norm_weight + j % d], S[j], shared[at.norm_bias + j % d] * s[j / d]);
    for (int i = threadIdx.x / 32; i < d; i += WARPS) {  // a warp a channel
      float d_weight = 0, d_bias = 0;
      for (int k = threadIdx.x % 32; k < 3 * d; k += 32) {
        const float w = weight[k * d + i];
        d_weight = fmaf(w, S[k * d + i], d_weight), d_bias = fmaf(w, s[k], d_bias);
      }
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        d_weight += __shfl_xor_sync(0xffffffffu, d_weight, distance);
        d_bias += __shfl_xor_sync(0xffffffffu, d_bias, distance);
      }
      if (threadIdx.x % 32 == 0) to[of.norm_weight + i] = d_weight, to[of.norm_bias + i] = d_bias;
    }
  }
};

template <int UNITS, bool FIXED, class C, int THREADS, int BLOCKS, Run RUN>
__global__ void __launch_bounds__(THREADS, BLOCKS) gru_backward_kernel(const GruBackward problem) {
  extern __shared__ float4 shared_quads[];
  __shared__ int shared_ticket;
  using Block = BackwardBlock<UNITS, FIXED, C, THREADS / 32, RUN>;
  const Block block(problem, take_stage<RUN>(problem, Direction::backward, &shared_ticket),
                    reinterpret_cast<float*>(shared_quads));
  prepare_meetings(block.roles.helpers().threads);
  block.load_parameters();
  __syncthreads();
  if (block.roles.recurrent())
    block.walk_recurrence();
  else
    block.walk_helper();
  __syncthreads();
  block.write_gradients();
}

using BackwardVariant = Variant<void (*)(GruBackward), GruSizes>;

template <int UNITS, int LENGTH, int THREADS, int BLOCKS, Run RUN, bool FIXED = true>
constexpr BackwardVariant variant() {
  using C = TimeColumns<LENGTH>;
  static_assert(LENGTH % 2 == 0);
  const auto bytes = [](const GruSizes& sizes, int) {
    return sizeof(float) * static_cast<std::size_t>(Layout(sizes, C{}, UnitColumns<UNITS>::read).total + 4);
  };
  return {gru_backward_kernel<UNITS, FIXED, C, THREADS, BLOCKS, RUN>,
          bytes,
          THREADS,
          BLOCKS,
          RUN,
          UNITS,
          FIXED ? UNITS : 0};
}

constexpr Tuning tunings[] = {{"power_grid", 8, 160, 3, Run::one},
                              {"burgers", 4, 128, 3, Run::one},
                              {"kdv", 6, 192, 2, Run::one},
                              {"lorenz96", 4, 384, 1, Run::several}};

template <std::size_t I>
constexpr BackwardVariant tuned() {
  constexpr PaperNetwork network = tuned_network(LayerKind::gru, I);
  constexpr Tuning t = tuning_for(tunings, network.system);
  return variant<static_cast<int>(network.shape.d_model), t.length, t.threads, t.blocks, t.run>();
}
template <std::size_t... I>
constexpr auto all_variants(std::index_sequence<I...>) {
  return std::to_array<BackwardVariant>({tuned<I>()..., variant<32, 4, 128, 3, Run::several, false>(),
                                         variant<32, 4, 128, 2, Run::several, false>(),
                                         variant<64, 4, 384, 1, Run::several, false>(),
                                         variant<64, 2, 384, 1, Run::several, false>()});
}
const auto variants = all_variants(TunedNetworks<LayerKind::gru>());

}  // namespace

std::optional<LaunchPlan> plan_gru_backward(const GruSizes& sizes, const SharedMemory& memory) {
  return choose(std::span<const BackwardVariant>(variants), sizes, 0, memory,
                [&](const BackwardVariant& v) { return suits(v, sizes); });
}

void launch_gru_backward(const GruBackward& problem, const LaunchPlan& plan, cudaStream_t stream) {
  const auto kernel = variants[plan.variant].kernel;
  allow_shared_memory(kernel, plan.bytes);
  kernel<<<problem.models * problem.groups.count * problem.layers, plan.threads, plan.bytes, stream>>>(
      problem);
}

}  // namespace mac::cuda
