// Forward pass of the GRU layers. While the recurrence walks through a chunk of time, step by step, the
// helpers take the next chunk through layer norm and input weights. The equations are in
// network/kinds/gru/reference.hpp.
#include <array>

#include "network/cuda/tuned_networks.hpp"
#include "network/kinds/gru/cuda/block.cuh"

namespace mac::cuda {

namespace {

/// Places in shared memory, in floats.
struct Layout {
  int norm_weight, norm_bias;
  int input_weight;  // in tiles
  int bias;          // of the gates, where input and hidden biases add up
  int hidden;        // (2, units): the state, written and read in turn
  int u;             // rows
  int h, gates;      // rows, for two chunks: the layer's input, and what the three gates get from it
  int total;

  template <class TimeColumns>
  __host__ __device__ Layout(const GruSizes& s, TimeColumns columns) {
    SharedLayout shared;
    const int d = s.d_model;
    norm_weight = shared.take(d), norm_bias = shared.take(d);
    input_weight = shared.take(tile_floats(3 * d, d)), bias = shared.take(3 * d);
    hidden = shared.take(2 * largest_gru);
    const auto rows = [&](int count) { return shared.take(count * columns.stride); };
    u = rows(d), h = rows(2 * d), gates = rows(6 * d);
    total = shared.used;
  }
};

/// The recurrent weights of one unit, or of one of the `lanes` threads that share it: each takes every
/// lanes-th quad of the hidden state.
template <int UNITS>
struct UnitWeights {
  static constexpr int lanes = UNITS > 32 ? 2 : 1, quads = tiles_of(UNITS, 4 * lanes);
  float r[4 * quads], z[4 * quads], n[4 * quads];
  float bias;  // of q

  __device__ UnitWeights(const float* weight, const float* bias_rows, int unit, int part, int d)
      : bias(bias_rows[2 * d + unit]) {
#pragma unroll
    for (int i = 0; i < 4 * quads; ++i) {
      const int k = 4 * (i / 4 * lanes + part) + i % 4;
      const bool exists = k < d;
      r[i] = exists ? weight[unit * d + k] : 0;
      z[i] = exists ? weight[(d + unit) * d + k] : 0;
      n[i] = exists ? weight[(2 * d + unit) * d + k] : 0;
    }
  }
};

__device__ float tanh_of(float x) {
  return fmaf(2.0f, reciprocal(1.0f + exp2_approx(-2 * log2_e * x)), -1.0f);
}

__device__ float4 pack(const float (&values)[4]) { return {values[0], values[1], values[2], values[3]}; }
__device__ void unpack(float (&values)[4], float4 quad) {
  values[0] = quad.x, values[1] = quad.y, values[2] = quad.z, values[3] = quad.w;
}

/// FIXED: d_model is UNITS, else at most that.
template <int UNITS, bool FIXED, class C, int WARPS, Run RUN>
struct ForwardBlock : GruBlock {
  static constexpr C columns{};
  using Weights = UnitWeights<UNITS>;
  using Roles = GruRoles<(UNITS * Weights::lanes + 31) / 32, WARPS>;
  const GruForward& forward;
  const Layout at;
  float* shared;
  Roles roles{};
  int d;

  __device__ ForwardBlock(const GruForward& p, const Stage& s, float* shared)
      : GruBlock(p, s), forward(p), at(p.sizes, columns), shared(shared), d(p.sizes.d_model) {}

  __device__ int chunks() const { return stage.chunks(columns.quads); }
  __device__ float* h_rows(int c) const { return shared + at.h + c % 2 * d * columns.stride; }
  __device__ float* gate_rows(int c) const { return shared + at.gates + c % 2 * 3 * d * columns.stride; }

  __device__ void load_parameters() const {
    const float* const w = parameters();
    const GruOffsets& of = forward.offsets;
    load(shared + at.norm_weight, w + of.norm_weight, d);
    load(shared + at.norm_bias, w + of.norm_bias, d);
    load_tiles(shared + at.input_weight, 3 * d, d,
               [&](int o, int i) { return w[of.input_weight + o * d + i]; });
    for (int i = threadIdx.x; i < 3 * d; i += blockDim.x)
      shared[at.bias + i] = w[of.input_bias + i] + (i < 2 * d ? w[of.hidden_bias + i] : 0);
    for (int i = threadIdx.x; i < 2 * largest_gru; i += blockDim.x)
      shared[at.hidden + i] = i < d ? state_before(0, i) : 0;
  }

  /// A unit's state before the sequence that begins at a quad of the run.
  __device__ float state_before(int quad, int unit) const {
    return forward.initial_state ? state<RUN>(forward.initial_state, quad)[unit] : 0;
  }

  /// Helpers: what the gates get from a chunk of the layer's input, as soon as the layer before has it.
  __device__ void prepare(int c, int& seen) const {
    const Team team = roles.helpers();
    float *const h = h_rows(c), *const u = shared + at.u, *const gates = gate_rows(c);
    if (team.thread == 0) wait_for_upstream(stage, c, seen);
    roles.meet_helpers();
    load_rows(h, GruBlock::h(stage.layer, c * columns.quads), d, columns, team);
    wait_for_copies();
    roles.meet_helpers();
    normalise(nullptr, h, d, columns, team, [&](int i, int column, float n) {
      u[i * columns.stride + column] = fmaf(shared[at.norm_weight + i], n, shared[at.norm_bias + i]);
    });
    roles.meet_helpers();
    multiply_all_tiles<RoundedTileC, 2>(
        shared + at.input_weight, 3 * d, d, u, columns, team, [&](int o, int first, int c, float2 sums) {
          const float bias = shared[at.bias + o];
          *reinterpret_cast<float2*>(gates + o * columns.stride + first + c) = {sums.x + bias, sums.y + bias};
        });
  }

  __device__ void walk_helper() const {
    const int chunks = this->chunks();
    const bool publishes = roles.helpers().thread == roles.helpers().threads - 1;
    int seen = 0;
    prepare(0, seen);
    roles.meet_all();
    for (int c = 0; c < chunks; ++c) {
      if (publishes && c > 0) publish_to_downstream(stage, c);
      if (c + 1 < chunks) prepare(c + 1, seen);
      roles.meet_all();
    }
    if (publishes) publish_to_downstream(stage, chunks);
  }

  /// The steps of a chunk, one after the other. `state` is the unit's own h.
  __device__ void recur(const Weights& w, float& state, int c) const {
    const int own = roles.thread / w.lanes, unit = min(own, d - 1), part = roles.thread % w.lanes;
    const bool writes = own < d && part == 0;
    const ChunkOfRun<RUN> chunk(forward, stage, c, columns.quads);
    const float* const from_gates = gate_rows(c) + unit * columns.stride;
    const float* const from_h = h_rows(c) + unit * columns.stride;
    const int next_gate = d * columns.stride;
    const TileView out = h(stage.layer + 1, chunk.first_quad), tape = this->tape(chunk.first_quad);
    int turn = 0;  // which copy of the hidden state is current
    for (int quad = 0; quad < chunk.quads; ++quad) {
      if (chunk.begins(quad)) {
        state = state_before(chunk.first_quad + quad, unit);
        if (writes) shared[at.hidden + unit] = state;
        roles.meet_recurrent();
      }
      float from_input[3][4], a_r[4], a_z[4], a_q[4], a_n[4], keep[4], before[5];
#pragma unroll
      for (int gate = 0; gate < 3; ++gate)
        unpack(from_input[gate], quad_at(from_gates + gate * next_gate + 4 * quad));
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float* const hidden = shared + at.hidden + turn * largest_gru + 4 * part;
        const bool first = w.lanes == 1 || part == 0;
        float r_sums[2] = {first ? from_input[0][j] : 0, 0}, z_sums[2] = {first ? from_input[1][j] : 0, 0},
              q_sums[2] = {first ? w.bias : 0, 0};
#pragma unroll
        for (int k = 0; k < 4 * w.quads; k += 4) {
          const float4 h = quad_at(hidden + k * w.lanes);
          r_sums[0] = fmaf(w.r[k], h.x, r_sums[0]), r_sums[1] = fmaf(w.r[k + 1], h.y, r_sums[1]);
          z_sums[0] = fmaf(w.z[k], h.x, z_sums[0]), z_sums[1] = fmaf(w.z[k + 1], h.y, z_sums[1]);
          q_sums[0] = fmaf(w.n[k], h.x, q_sums[0]), q_sums[1] = fmaf(w.n[k + 1], h.y, q_sums[1]);
          r_sums[0] = fmaf(w.r[k + 2], h.z, r_sums[0]), r_sums[1] = fmaf(w.r[k + 3], h.w, r_sums[1]);
          z_sums[0] = fmaf(w.z[k + 2], h.z, z_sums[0]), z_sums[1] = fmaf(w.z[k + 3], h.w, z_sums[1]);
          q_sums[0] = fmaf(w.n[k + 2], h.z, q_sums[0]), q_sums[1] = fmaf(w.n[k + 3], h.w, q_sums[1]);
        }
        const auto total = [&](const float(&sums)[2]) {
          const float sum = sums[0] + sums[1];
          return w.lanes == 1 ? sum : sum + __shfl_xor_sync(0xffffffffu, sum, 1);
        };
        const float r = sigmoid(total(r_sums)), q = total(q_sums), z = sigmoid(total(z_sums));
        const float n = tanh_of(fmaf(r, q, from_input[2][j]));
        before[j] = state;
        state = fmaf(z, state - n, n);
        turn ^= 1;
        if (writes) shared[at.hidden + turn * largest_gru + unit] = state;
        roles.meet_recurrent();
        keep[j] = z;
        a_n[j] = (1 - z) * (1 - n * n), a_q[j] = a_n[j] * r, a_r[j] = a_q[j] * q * (1 - r);
        a_z[j] = (before[j] - n) * z * (1 - z);
      }
      before[4] = state;
      if (!writes) continue;
      const float4 after{before[1], before[2], before[3], before[4]};
      __stcg(reinterpret_cast<float4*>(out.at(quad, unit)), quad_at(from_h + 4 * quad) + after);
      if (forward.final_state && chunk.ends(quad)) {
        const int last = chunk.steps(quad);
        GruBlock::state<RUN>(forward.final_state, chunk.first_quad + quad)[unit] = last == 1   ? after.x
                                                                                   : last == 2 ? after.y
                                                                                   : last == 3 ? after.z
                                                                                               : after.w;
      }
      if (!forward.tape) continue;
      float4* const to = reinterpret_cast<float4*>(tape.at(quad, unit));
      __stcg(to, pack(a_r)), __stcg(to + d, pack(a_z)), __stcg(to + 2 * d, pack(a_q));
      __stcg(to + 3 * d, pack(a_n)), __stcg(to + 4 * d, pack(keep));
      __stcg(to + 5 * d, float4{before[0], before[1], before[2], before[3]});
    }
    // Four steps a quad: the current copy is the first again.
  }

  __device__ void walk_recurrence() const {
    const int unit = min(roles.thread / Weights::lanes, d - 1);
    const float* const w = parameters();
    const Weights weights(w + forward.offsets.hidden_weight, w + forward.offsets.hidden_bias, unit,
                          roles.thread % Weights::lanes, d);
    float state = shared[at.hidden + unit];
    roles.meet_all();  // the first chunk is there
    for (int c = 0; c < chunks(); ++c) {
      recur(weights, state, c);
      roles.meet_all();
    }
  }
};

template <int UNITS, bool FIXED, class C, int THREADS, int BLOCKS, Run RUN>
__global__ void __launch_bounds__(THREADS, BLOCKS) gru_forward_kernel(const GruForward problem) {
  extern __shared__ float4 shared_quads[];
  __shared__ int shared_ticket;
  using Block = ForwardBlock<UNITS, FIXED, C, THREADS / 32, RUN>;
  const Block block(problem, take_stage<RUN>(problem, Direction::forward, &shared_ticket),
                    reinterpret_cast<float*>(shared_quads));
  prepare_meetings(block.roles.helpers().threads);
  block.load_parameters();
  __syncthreads();
  if (block.roles.recurrent())
    block.walk_recurrence();
  else
    block.walk_helper();
}

using ForwardVariant = Variant<void (*)(GruForward), GruSizes>;

template <int UNITS, int LENGTH, int THREADS, int BLOCKS, Run RUN, bool FIXED = true>
constexpr ForwardVariant variant() {
  using C = TimeColumns<LENGTH>;
  const auto bytes = [](const GruSizes& sizes, int) {
    return sizeof(float) * static_cast<std::size_t>(Layout(sizes, C{}).total + 4);
  };
  return {gru_forward_kernel<UNITS, FIXED, C, THREADS, BLOCKS, RUN>,
          bytes,
          THREADS,
          BLOCKS,
          RUN,
          UNITS,
          FIXED ? UNITS : 0};
}

constexpr Tuning tunings[] = {{"power_grid", 8, 128, 3, Run::one},
                              {"burgers", 8, 128, 3, Run::one},
                              {"kdv", 8, 128, 3, Run::one},
                              {"lorenz96", 4, 192, 2, Run::several}};

template <std::size_t I>
constexpr ForwardVariant tuned() {
  constexpr PaperNetwork network = tuned_network(LayerKind::gru, I);
  constexpr Tuning t = tuning_for(tunings, network.system);
  return variant<static_cast<int>(network.shape.d_model), t.length, t.threads, t.blocks, t.run>();
}
template <std::size_t... I>
constexpr auto all_variants(std::index_sequence<I...>) {
  return std::to_array<ForwardVariant>({tuned<I>()..., variant<32, 8, 128, 3, Run::several, false>(),
                                        variant<32, 8, 128, 2, Run::several, false>(),
                                        variant<64, 4, 192, 2, Run::several, false>(),
                                        variant<64, 4, 192, 1, Run::several, false>()});
}
const auto variants = all_variants(TunedNetworks<LayerKind::gru>());

}  // namespace

std::optional<LaunchPlan> plan_gru_forward(const GruSizes& sizes, const SharedMemory& memory) {
  return choose(std::span<const ForwardVariant>(variants), sizes, 0, memory,
                [&](const ForwardVariant& v) { return suits(v, sizes); });
}

void launch_gru_forward(const GruForward& problem, const LaunchPlan& plan, cudaStream_t stream) {
  const auto kernel = variants[plan.variant].kernel;
  allow_shared_memory(kernel, plan.bytes);
  kernel<<<problem.models * problem.groups.count * problem.layers, plan.threads, plan.bytes, stream>>>(
      problem);
}

}  // namespace mac::cuda
