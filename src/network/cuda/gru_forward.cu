// Forward pass of the GRU layers. For each chunk of time: layer norm and input weights for all steps at once,
// then the recurrence step by step. The equations are in network/reference_gru.hpp.
#include "network/cuda/gru_block.cuh"

namespace mac::cuda {

namespace {

/// Places in shared memory, in floats.
struct Layout {
  int gates_ld;
  int norm_weight, norm_bias, input_weight, bias;  // bias: of the gates, where input and hidden biases add up
  int hidden;                                      // (2, units): the state, written and read in turn
  int h, u, gates, q, before;  // rows; gates becomes r, z, n, and the three rows sets follow each other
  int total;

  template <class Columns>
  __host__ __device__ Layout(const GruSizes& s, Columns columns) {
    SharedLayout shared;
    const int d = s.d_model;
    gates_ld = round_up(3 * d, 4);
    norm_weight = shared.take(d), norm_bias = shared.take(d);
    input_weight = shared.take(d * gates_ld), bias = shared.take(3 * d);
    hidden = shared.take(2 * largest_gru);
    h = shared.take(d * columns.stride), u = shared.take(d * columns.stride);
    gates = shared.take(3 * d * columns.stride), q = shared.take(d * columns.stride);
    before = shared.take(d * columns.stride);
    total = shared.used;
  }
};

/// The recurrent weights of one unit.
template <int UNITS>
struct UnitWeights {
  float r[UNITS], z[UNITS], n[UNITS];
  float bias;  // of q

  __device__ UnitWeights(const float* weight, const float* bias_rows, int unit, int d)
      : bias(bias_rows[2 * d + unit]) {
#pragma unroll
    for (int k = 0; k < UNITS; ++k) {
      const bool exists = k < d;
      r[k] = exists ? weight[unit * d + k] : 0;
      z[k] = exists ? weight[(d + unit) * d + k] : 0;
      n[k] = exists ? weight[(2 * d + unit) * d + k] : 0;
    }
  }
};

__device__ float tanh_of(float x) { return fmaf(2.0f, sigmoid(2 * x), -1.0f); }

/// The steps of a chunk, one after the other. `state` is the unit's own h.
template <int WARPS, class Columns>
__device__ void recur(const UnitWeights<32 * WARPS>& w, float& state, float* shared, const Layout& at,
                      int quads, int d, Columns columns) {
  const int unit = min(static_cast<int>(threadIdx.x), d - 1);
  const bool exists = static_cast<int>(threadIdx.x) < d;
  float* const rows = shared + unit * columns.stride;
  const int next_gate = d * columns.stride;
  int turn = 0;  // which copy of the hidden state is current
  for (int quad = 0; quad < quads; ++quad) {
    float from_input[3][4], r[4], z[4], n[4], q[4], before[4];
#pragma unroll
    for (int gate = 0; gate < 3; ++gate) {
      const float4 g = quad_at(rows + at.gates + gate * next_gate + 4 * quad);
      from_input[gate][0] = g.x, from_input[gate][1] = g.y, from_input[gate][2] = g.z,
      from_input[gate][3] = g.w;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* const hidden = shared + at.hidden + turn * largest_gru;
      float r_sums[2] = {from_input[0][j], 0}, z_sums[2] = {from_input[1][j], 0}, q_sums[2] = {w.bias, 0};
#pragma unroll
      for (int k = 0; k < 32 * WARPS; k += 4) {
        const float4 h = quad_at(hidden + k);
        r_sums[0] = fmaf(w.r[k], h.x, r_sums[0]), r_sums[1] = fmaf(w.r[k + 1], h.y, r_sums[1]);
        z_sums[0] = fmaf(w.z[k], h.x, z_sums[0]), z_sums[1] = fmaf(w.z[k + 1], h.y, z_sums[1]);
        q_sums[0] = fmaf(w.n[k], h.x, q_sums[0]), q_sums[1] = fmaf(w.n[k + 1], h.y, q_sums[1]);
        r_sums[0] = fmaf(w.r[k + 2], h.z, r_sums[0]), r_sums[1] = fmaf(w.r[k + 3], h.w, r_sums[1]);
        z_sums[0] = fmaf(w.z[k + 2], h.z, z_sums[0]), z_sums[1] = fmaf(w.z[k + 3], h.w, z_sums[1]);
        q_sums[0] = fmaf(w.n[k + 2], h.z, q_sums[0]), q_sums[1] = fmaf(w.n[k + 3], h.w, q_sums[1]);
      }
      before[j] = state;
      r[j] = sigmoid(r_sums[0] + r_sums[1]);
      z[j] = sigmoid(z_sums[0] + z_sums[1]);
      q[j] = q_sums[0] + q_sums[1];
      n[j] = tanh_of(fmaf(r[j], q[j], from_input[2][j]));
      state = fmaf(z[j], state - n[j], n[j]);
      turn ^= 1;
      if (exists) shared[at.hidden + turn * largest_gru + unit] = state;
      recurrence_barrier<WARPS>();
    }
    if (!exists) continue;
    quad_at(rows + at.gates + 4 * quad) = {r[0], r[1], r[2], r[3]};
    quad_at(rows + at.gates + next_gate + 4 * quad) = {z[0], z[1], z[2], z[3]};
    quad_at(rows + at.gates + 2 * next_gate + 4 * quad) = {n[0], n[1], n[2], n[3]};
    quad_at(rows + at.q + 4 * quad) = {q[0], q[1], q[2], q[3]};
    quad_at(rows + at.before + 4 * quad) = {before[0], before[1], before[2], before[3]};
  }
  // Four steps a quad: the current copy is the first again.
}

/// h_t = n + z (h_{t−1} − n), from the rows of a finished chunk.
__device__ float4 hidden_after(float4 z, float4 n, float4 before) {
  return fma4(z, fma4(-1.0f, n, before), n);
}

template <int WARPS, class Columns, int THREADS, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS) gru_forward_kernel(const GruForward problem) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  __shared__ int shared_ticket;
  constexpr Columns columns;
  const int d = problem.sizes.d_model;
  const Layout at(problem.sizes, columns);
  const GruBlock block(problem, take_stage({problem.counters, problem.counters + 1}, problem.batch,
                                           problem.layers, Direction::forward, &shared_ticket));
  const float* const w = block.parameters();
  const GruOffsets& of = problem.offsets;
  load_padded(shared + at.norm_weight, d, w + of.norm_weight, 1, d);
  load_padded(shared + at.norm_bias, d, w + of.norm_bias, 1, d);
  load_transposed(shared + at.input_weight, at.gates_ld, w + of.input_weight, 3 * d, d);
  for (int i = threadIdx.x; i < 3 * d; i += blockDim.x)
    shared[at.bias + i] = w[of.input_bias + i] + (i < 2 * d ? w[of.hidden_bias + i] : 0);
  fill(shared + at.hidden, 2 * largest_gru, 0);
  __syncthreads();
  const int unit = min(static_cast<int>(threadIdx.x), d - 1);
  const UnitWeights<32 * WARPS> weights(w + of.hidden_weight, w + of.hidden_bias, unit, d);
  float state = problem.initial_state ? block.state(problem.initial_state)[unit] : 0;
  if (static_cast<int>(threadIdx.x) < d) shared[at.hidden + unit] = state;

  const int chunks = (problem.quads + columns.quads - 1) / columns.quads;
  for (int c = 0; c < chunks; ++c) {
    const int first_quad = c * columns.quads, quads = min(columns.quads, problem.quads - first_quad);
    wait_for_chunk(block.stage, c);
    load_rows(shared + at.h, block.h(block.stage.layer, first_quad), d, columns);
    wait_for_copies();
    __syncthreads();
    layer_norm_forward(shared + at.u, nullptr, nullptr, shared + at.h, shared + at.norm_weight,
                       shared + at.norm_bias, d, columns);
    __syncthreads();
    multiply<4>(shared + at.input_weight, at.gates_ld, d, 3 * d, shared + at.u, columns,
                [&](int o, int q, float4 sums) {
                  quad_at(shared + at.gates + o * columns.stride + 4 * q) = sums + splat(shared[at.bias + o]);
                });
    __syncthreads();
    if (threadIdx.x < 32 * WARPS) recur<WARPS>(weights, state, shared, at, quads, d, columns);
    __syncthreads();
    for_each_quad(d, columns, [&](int i, int q) {
      const auto row = [&](int rows) { return quad_at(shared + rows + i * columns.stride + 4 * q); };
      const int next_gate = d * columns.stride;
      const float4 hidden =
          hidden_after(row(at.gates + next_gate), row(at.gates + 2 * next_gate), row(at.before));
      float4& h = quad_at(shared + at.h + i * columns.stride + 4 * q);
      h = h + hidden;
      if (!problem.final_state || c + 1 < chunks || q + 1 != quads) return;
      const int last = (problem.time - 1) % 4;
      block.state(problem.final_state)[i] = last == 0   ? hidden.x
                                            : last == 1 ? hidden.y
                                            : last == 2 ? hidden.z
                                                        : hidden.w;
    });
    if (problem.tape) {
      const TileView tape = block.tape(first_quad);
      store_rows(tape, shared + at.gates, 5 * d, columns);  // r, z, n, q and before lie one after the other
    }
    __syncthreads();
    store_rows(block.h(block.stage.layer + 1, first_quad), shared + at.h, d, columns);
    publish_chunks(block.stage, c + 1);
  }
}

using ForwardVariant = Variant<void (*)(GruForward), GruSizes>;

template <int WARPS, int LENGTH, int THREADS, int BLOCKS>
constexpr ForwardVariant variant() {
  using C = Columns<LENGTH>;
  const auto bytes = [](const GruSizes& sizes, int) {
    return sizeof(float) * static_cast<std::size_t>(Layout(sizes, C{}).total);
  };
  return {gru_forward_kernel<WARPS, C, THREADS, BLOCKS>, bytes, THREADS, BLOCKS, 32 * WARPS};
}

const ForwardVariant variants[] = {variant<1, 16, 128, 3>(), variant<2, 8, 256, 1>()};

}  // namespace

std::optional<LaunchPlan> plan_gru_forward(const GruSizes& sizes, const SharedMemory& memory) {
  return choose(std::span<const ForwardVariant>(variants), sizes, 0, memory,
                [&](const ForwardVariant& v) { return sizes.d_model <= v.units; });
}

void launch_gru_forward(const GruForward& problem, const LaunchPlan& plan, cudaStream_t stream) {
  const auto kernel = variants[plan.variant].kernel;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(plan.bytes));
  kernel<<<problem.models * problem.batch * problem.layers, plan.threads, plan.bytes, stream>>>(problem);
}

}  // namespace mac::cuda
