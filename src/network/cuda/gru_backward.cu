// Backward pass of the GRU layers, from the last layer to the first and from the last chunk of time to the
// first.
//
// With g_t the gradient of h_t, the gradients before the activations are all multiples of it, whose factors
// are known beforehand for all steps of a chunk:
//   d_n = g a_n,  a_n = (1 − z)(1 − n²)     d_r = g a_r,  a_r = a_n q r (1 − r)
//   d_q = g a_q,  a_q = a_n r               d_z = g a_z,  a_z = (h_{t−1} − n) z (1 − z)
// so that the recurrence is only g_{t−1} = d_out_{t−1} + g_t z_t + W_hhᵀ (d_r, d_z, d_q)_t.
#include "network/cuda/gru_block.cuh"

namespace mac::cuda {

namespace {

constexpr int weight_gradients = 3;

/// Places in shared memory, in floats.
struct Layout {
  int model_ld;
  int norm_weight, norm_bias, input_weight;
  int hidden;  // (2, 3, units): d_r, d_z, d_q of the step at hand, written and read in turn
  int scales;
  int d_h, normalised, u;  // rows
  int a_r, a_z, a_n, a_q, before, keep,
      g;  // rows; the first four become d_r, d_z, d_n, d_q; keep is z, then d_u
  int sums, total;

  template <class Columns>
  __host__ __device__ Layout(const GruSizes& s, Columns columns, int shared_sums) {
    SharedLayout shared;
    const int d = s.d_model;
    const auto rows = [&](int count) { return shared.take(count * columns.stride); };
    model_ld = round_up(d, 4);
    norm_weight = shared.take(d), norm_bias = shared.take(d);
    input_weight = shared.take(3 * d * model_ld);
    hidden = shared.take(6 * largest_gru);
    scales = shared.take(4 * columns.quads);
    d_h = rows(d), normalised = rows(d), u = rows(d);
    a_r = rows(d), a_z = rows(d), a_n = rows(d), a_q = rows(d), before = rows(d), keep = rows(d), g = rows(d);
    sums = shared.take(shared_sums);
    total = shared.used;
  }
};

/// Column `unit` of the recurrent weights.
template <int UNITS>
struct UnitWeights {
  float r[UNITS], z[UNITS], n[UNITS];

  __device__ UnitWeights(const float* weight, int unit, int d) {
#pragma unroll
    for (int k = 0; k < UNITS; ++k) {
      const bool exists = k < d;
      r[k] = exists ? weight[k * d + unit] : 0;
      z[k] = exists ? weight[(d + k) * d + unit] : 0;
      n[k] = exists ? weight[(2 * d + k) * d + unit] : 0;
    }
  }
};

/// The steps of a chunk, last to first: fills the rows g. `carried` is what g gets from the step after.
template <int WARPS, class Columns>
__device__ void recur_back(const UnitWeights<32 * WARPS>& w, float& carried, float* shared, const Layout& at,
                           int steps, int d, Columns columns) {
  const int unit = min(static_cast<int>(threadIdx.x), d - 1);
  const bool exists = static_cast<int>(threadIdx.x) < d;
  float* const rows = shared + unit * columns.stride;
  int turn = 0;
  for (int quad = (steps + 3) / 4; quad-- > 0;) {
    const auto load = [&](float(&to)[4], int from) {
      const float4 value = quad_at(rows + from + 4 * quad);
      to[0] = value.x, to[1] = value.y, to[2] = value.z, to[3] = value.w;
    };
    float d_out[4], a_r[4], a_z[4], a_q[4], keep[4], g[4] = {};
    load(d_out, at.d_h), load(a_r, at.a_r), load(a_z, at.a_z), load(a_q, at.a_q), load(keep, at.keep);
#pragma unroll
    for (int j = 3; j >= 0; --j) {
      if (4 * quad + j >= steps) continue;
      g[j] = carried + d_out[j];
      float* const hidden = shared + at.hidden + turn * 3 * largest_gru;
      if (exists) {
        hidden[unit] = g[j] * a_r[j];
        hidden[largest_gru + unit] = g[j] * a_z[j];
        hidden[2 * largest_gru + unit] = g[j] * a_q[j];
      }
      recurrence_barrier<WARPS>();
      float sums[4] = {g[j] * keep[j], 0, 0, 0};
#pragma unroll
      for (int k = 0; k < 32 * WARPS; k += 4) {
        const float4 r = quad_at(hidden + k), z = quad_at(hidden + largest_gru + k),
                     q = quad_at(hidden + 2 * largest_gru + k);
        sums[0] = fmaf(w.r[k], r.x, sums[0]), sums[1] = fmaf(w.r[k + 1], r.y, sums[1]);
        sums[2] = fmaf(w.r[k + 2], r.z, sums[2]), sums[3] = fmaf(w.r[k + 3], r.w, sums[3]);
        sums[0] = fmaf(w.z[k], z.x, sums[0]), sums[1] = fmaf(w.z[k + 1], z.y, sums[1]);
        sums[2] = fmaf(w.z[k + 2], z.z, sums[2]), sums[3] = fmaf(w.z[k + 3], z.w, sums[3]);
        sums[0] = fmaf(w.n[k], q.x, sums[0]), sums[1] = fmaf(w.n[k + 1], q.y, sums[1]);
        sums[2] = fmaf(w.n[k + 2], q.z, sums[2]), sums[3] = fmaf(w.n[k + 3], q.w, sums[3]);
      }
      carried = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      turn ^= 1;  // a thread may be one step ahead of the others, never two
    }
    if (exists) quad_at(rows + at.g + 4 * quad) = {g[0], g[1], g[2], g[3]};
  }
}

template <int WARPS, class Columns, int THREADS, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    gru_backward_kernel(const GruBackward problem, bool shared_sums) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  __shared__ int shared_ticket;
  __shared__ OuterProduct jobs[weight_gradients];
  constexpr Columns columns;
  const int d = problem.sizes.d_model;
  const GruOffsets& of = problem.offsets;
  const Layout at(problem.sizes, columns, shared_sums ? of.size : 0);
  const GruBlock block(problem, take_stage({problem.counters, problem.counters + 1}, problem.batch,
                                           problem.layers, Direction::backward, &shared_ticket));
  const float* const w = block.parameters();
  float* const partial =
      problem.partials + (static_cast<size_t>(block.sequence) * problem.layers + block.stage.layer) * of.size;
  float* const sums = shared_sums ? shared + at.sums : partial;
  const auto quad = [&](int rows, int i, int q) -> float4& {
    return quad_at(shared + rows + i * columns.stride + 4 * q);
  };

  load_padded(shared + at.norm_weight, d, w + of.norm_weight, 1, d);
  load_padded(shared + at.norm_bias, d, w + of.norm_bias, 1, d);
  load_padded(shared + at.input_weight, at.model_ld, w + of.input_weight, 3 * d, d);
  fill(shared + at.hidden, 6 * largest_gru, 0);
  fill(sums, of.size, 0);
  if (threadIdx.x == 0) {
    jobs[0] = {at.a_r, at.u, 3 * d, d, of.input_weight, d};
    jobs[1] = {at.a_r, at.before, 2 * d, d, of.hidden_weight, d};
    jobs[2] = {at.a_q, at.before, d, d, of.hidden_weight + 2 * d * d, d};
  }
  const int unit = min(static_cast<int>(threadIdx.x), d - 1);
  const UnitWeights<32 * WARPS> weights(w + of.hidden_weight, unit, d);
  float carried = problem.d_final_state ? block.state(problem.d_final_state)[unit] : 0;
  __syncthreads();

  const int chunks = (problem.quads + columns.quads - 1) / columns.quads;
  for (int c = chunks; c-- > 0;) {
    const int first_quad = c * columns.quads, steps = min(4 * columns.quads, problem.time - 4 * first_quad);
    const TileView tape = block.tape(first_quad);
    load_rows(shared + at.a_r, tape, d, columns), load_rows(shared + at.a_z, tape.skip_rows(d), d, columns);
    load_rows(shared + at.a_n, tape.skip_rows(2 * d), d, columns);
    load_rows(shared + at.a_q, tape.skip_rows(3 * d), d, columns);
    load_rows(shared + at.before, tape.skip_rows(4 * d), d, columns);
    load_rows(shared + at.normalised, block.h(block.stage.layer, first_quad), d, columns);
    wait_for_chunk(block.stage, chunks - 1 - c);
    load_rows(shared + at.d_h, block.tensor(problem.d_h, 0, 0, d, first_quad), d, columns);
    wait_for_copies();
    __syncthreads();

    layer_norm_forward(shared + at.u, shared + at.normalised, shared + at.scales, shared + at.normalised,
                       shared + at.norm_weight, shared + at.norm_bias, d, columns);
    for_each_quad(d, columns, [&](int i, int k) {
      const float4 r = quad(at.a_r, i, k), z = quad(at.a_z, i, k), n = quad(at.a_n, i, k),
                   q = quad(at.a_q, i, k);
      const float4 rest = map4(z, [](float a) { return 1 - a; });
      const float4 a_n = rest * map4(n, [](float a) { return 1 - a * a; });
      quad(at.a_n, i, k) = a_n;
      quad(at.a_q, i, k) = a_n * r;
      quad(at.a_r, i, k) = a_n * q * r * map4(r, [](float a) { return 1 - a; });
      quad(at.a_z, i, k) = fma4(-1.0f, n, quad(at.before, i, k)) * z * rest;
      quad(at.keep, i, k) = z;
      if (4 * k >= steps) quad(at.g, i, k) = splat(0);
    });
    __syncthreads();
    if (threadIdx.x < 32 * WARPS) recur_back<WARPS>(weights, carried, shared, at, steps, d, columns);
    __syncthreads();
    for_each_quad(d, columns, [&](int i, int k) {
      const float4 g = quad(at.g, i, k);
      for (const int rows : {at.a_r, at.a_z, at.a_n, at.a_q}) quad(rows, i, k) = quad(rows, i, k) * g;
    });
    __syncthreads();

    const int d_u = at.keep, d_h = at.g;  // z and g are no longer needed
    multiply<4>(shared + at.input_weight, at.model_ld, 3 * d, d, shared + at.a_r, columns,
                [&](int o, int q, float4 s) { quad(d_u, o, q) = s; });
    __syncthreads();
    layer_norm_backward(shared + d_h, shared + at.d_h, shared + d_u, shared + at.normalised,
                        shared + at.scales, shared + at.norm_weight, d, columns);
    __syncthreads();
    store_rows(block.tensor(problem.d_h, 0, 0, d, first_quad), shared + d_h, d, columns);
    outer_products(jobs, weight_gradients, shared, sums, columns);
    sum_columns<6>(
        d, columns,
        [&](int i, int q, float(&s)[6]) {
          s[0] += sum(quad(at.a_r, i, q)), s[1] += sum(quad(at.a_z, i, q));
          s[2] += sum(quad(at.a_n, i, q)), s[3] += sum(quad(at.a_q, i, q));
          s[4] += sum(quad(d_u, i, q) * quad(at.normalised, i, q)), s[5] += sum(quad(d_u, i, q));
        },
        [&](int i, const float(&s)[6]) {
          sums[of.input_bias + i] += s[0], sums[of.hidden_bias + i] += s[0];
          sums[of.input_bias + d + i] += s[1], sums[of.hidden_bias + d + i] += s[1];
          sums[of.input_bias + 2 * d + i] += s[2], sums[of.hidden_bias + 2 * d + i] += s[3];
          sums[of.norm_weight + i] += s[4], sums[of.norm_bias + i] += s[5];
        });
    publish_chunks(block.stage, chunks - c);
  }
  if (problem.d_initial_state && static_cast<int>(threadIdx.x) < d)
    block.state(problem.d_initial_state)[unit] = carried;
  if (partial != sums)
    for (int i = threadIdx.x; i < of.size; i += blockDim.x) partial[i] = sums[i];
}

using BackwardVariant = Variant<void (*)(GruBackward, bool), GruSizes>;

template <int WARPS, int LENGTH, int THREADS, int BLOCKS>
constexpr BackwardVariant variant() {
  using C = Columns<LENGTH>;
  const auto bytes = [](const GruSizes& sizes, int shared_sums) {
    return sizeof(float) * static_cast<std::size_t>(Layout(sizes, C{}, shared_sums).total);
  };
  return {gru_backward_kernel<WARPS, C, THREADS, BLOCKS>, bytes, THREADS, BLOCKS, 32 * WARPS};
}

const BackwardVariant variants[] = {variant<1, 8, 128, 3>(), variant<2, 4, 256, 1>()};

}  // namespace

std::optional<LaunchPlan> plan_gru_backward(const GruSizes& sizes, int parameters,
                                            const SharedMemory& memory) {
  return choose(std::span<const BackwardVariant>(variants), sizes, parameters, memory,
                [&](const BackwardVariant& v) { return sizes.d_model <= v.units; });
}

void launch_gru_backward(const GruBackward& problem, const LaunchPlan& plan, cudaStream_t stream) {
  const auto kernel = variants[plan.variant].kernel;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(plan.bytes));
  kernel<<<problem.models * problem.batch * problem.layers, plan.threads, plan.bytes, stream>>>(
      problem, plan.shared_sums);
}

}  // namespace mac::cuda
