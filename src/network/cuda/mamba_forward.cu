// Forward pass of the Mamba layers. One block is one stage of the pipeline (pipeline.cuh); for each chunk of
// time it takes h through layer norm, in_proj, convolution, x_proj, dt_proj, scan, gate and out_proj without
// leaving shared memory. The equations are in network/reference_mamba.hpp.
#include "network/cuda/mamba_scan.cuh"
#include "network/cuda/pipeline.cuh"

namespace mac::cuda {

namespace {

constexpr int out_tile = 4, in_tile = 8;  // outputs a thread computes at once, of out_proj/x_proj and in_proj

/// Places in shared memory, in floats.
struct Layout {
  int in_ld, projected_ld, out_ld;  // row lengths of the transposed weights
  int norm_weight, norm_bias, in_proj, conv_weight, conv_bias, x_proj, step_weight, step_bias, A, D, out_proj;
  int state;                  // (sequence, state_count)
  int window;                 // (sequence, d_inner, 4): the quad of x before the chunk
  int h, x, z, v, projected;  // rows. Δ, then the gated output, take the place of x; LN(h) that of v
  int total;

  template <class Sizes, class Columns>
  __host__ __device__ Layout(const Sizes& s, Columns columns) {
    SharedLayout shared;
    in_ld = round_up(2 * s.d_inner, in_tile);
    projected_ld = round_up(s.projected(), out_tile);
    out_ld = round_up(s.d_model, out_tile);
    norm_weight = shared.take(s.d_model), norm_bias = shared.take(s.d_model);
    in_proj = shared.take(s.d_model * in_ld);
    conv_weight = shared.take(4 * s.d_inner), conv_bias = shared.take(s.d_inner);
    x_proj = shared.take(s.d_inner * projected_ld);
    step_weight = shared.take(s.d_inner * s.rank), step_bias = shared.take(s.d_inner);
    A = shared.take(s.state_count()), D = shared.take(s.d_inner);
    out_proj = shared.take(s.d_inner * out_ld);
    state = shared.take(columns.sequences * s.state_count());
    window = shared.take(columns.sequences * s.d_inner * 4);
    h = shared.take(s.d_model * columns.stride);
    x = shared.take(s.d_inner * columns.stride);
    z = shared.take(s.d_inner * columns.stride);
    v = shared.take(s.d_inner * columns.stride);
    projected = shared.take(s.projected() * columns.stride);
    total = shared.used;
  }
};

__device__ void load_parameters(float* shared, const Layout& at, const float* w, const MambaOffsets& from,
                                const MambaSizes& s) {
  const auto copy = [&](int to, int offset, int count) {
    load_padded(shared + to, count, w + offset, 1, count);
  };
  copy(at.norm_weight, from.norm_weight, s.d_model), copy(at.norm_bias, from.norm_bias, s.d_model);
  load_transposed(shared + at.in_proj, at.in_ld, w + from.in_proj, 2 * s.d_inner, s.d_model);
  copy(at.conv_weight, from.conv_weight, 4 * s.d_inner), copy(at.conv_bias, from.conv_bias, s.d_inner);
  load_transposed(shared + at.x_proj, at.projected_ld, w + from.x_proj, s.projected(), s.d_inner,
                  [&](int r) { return projected_row(s, r); });
  copy(at.step_weight, from.step_weight, s.d_inner * s.rank), copy(at.step_bias, from.step_bias, s.d_inner);
  load_decay(shared + at.A, w + from.A_log, s);
  copy(at.D, from.D, s.d_inner);
  load_transposed(shared + at.out_proj, at.out_ld, w + from.out_proj, s.d_model, s.d_inner);
}

/// The chunk of time at hand, for all sequences of the block.
struct Chunk {
  int first_quad;      // in time
  int steps;           // that exist, at most 4 · length
  float* checkpoints;  // (quad, checkpoint_size) of this layer and sequence from this chunk on, or null
};

template <class Sizes, class Columns>
__device__ void scan_forward(float* shared, const Layout& at, Columns columns, const Chunk& chunk,
                             const Sizes& s) {
  constexpr int S = Sizes::states_per_thread;
  for (int slab = threadIdx.x / 32; slab < s.slabs(); slab += blockDim.x / 32) {
    const ScanThread thread(slab, s.d_inner);
    float A[2][S], state[2][S];
    load_states(A, shared + at.A, thread);
    load_states(state, shared + at.state, thread);
    const float* const B_rows = shared + at.projected + (s.rank + thread.group * S) * columns.stride;
    const float* const C_rows = B_rows + 4 * S * columns.stride;
    float* const delta_rows[2] = {shared + at.x + thread.own(0) * columns.stride,
                                  shared + at.x + thread.own(1) * columns.stride};
    const int v_from_delta = at.v - at.x;
    const float* const z_row = shared + at.z + thread.own(0) * columns.stride;
    const float D = shared[at.D + thread.own(0)];
    float* checkpoint = chunk.checkpoints ? chunk.checkpoints + slab * 64 * S : nullptr;

    for (int q = 0; q < columns.length; ++q) {
      if (checkpoint && 4 * q < chunk.steps) save_checkpoint(checkpoint, state);
      if (checkpoint) checkpoint += s.checkpoint_size();
      float delta[2][4], input[2][4], p[2][4] = {};
#pragma unroll
      for (int l = 0; l < 2; ++l) {
        const float4 step = quad_at(delta_rows[l] + 4 * q);
        unpack(delta[l], step);
        unpack(input[l], step * quad_at(delta_rows[l] + v_from_delta + 4 * q));
      }
#pragma unroll
      for (int i = 0; i < S; ++i) {
        float B[4], C[4];
        unpack(B, quad_at(B_rows + i * columns.stride + 4 * q));
        unpack(C, quad_at(C_rows + i * columns.stride + 4 * q));
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int l = 0; l < 2; ++l) {
            const float decay = exp2_approx(delta[l][j] * A[l][i]);
            state[l][i] = fmaf(decay, state[l][i], input[l][j] * B[j]);
            p[l][j] = fmaf(C[j], state[l][i], p[l][j]);
          }
      }
      const float2 sums = sum_over_states(p, thread.group);
      __syncwarp();
      if (!thread.exists) continue;
      const int step = 4 * q + thread.first_step();
      const float2 z = *reinterpret_cast<const float2*>(z_row + step);
      const float2 kept_v = *reinterpret_cast<const float2*>(delta_rows[0] + v_from_delta + step);
      *reinterpret_cast<float2*>(delta_rows[0] + step) = {fmaf(D, kept_v.x, sums.x) * silu(z.x),
                                                          fmaf(D, kept_v.y, sums.y) * silu(z.y)};
    }
    store_states(shared + at.state, state, thread);
  }
}

template <class Sizes, class Columns, int THREADS, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS) mamba_forward_kernel(const MambaForward problem) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  __shared__ int shared_ticket;
  const Sizes s(problem.sizes);
  constexpr Columns columns;
  constexpr int sequences = columns.sequences, length = columns.length;
  const Layout at(s, columns);
  const int groups = (problem.batch + sequences - 1) / sequences;
  const Stage stage = take_stage({problem.counters, problem.counters + 1}, groups, problem.layers,
                                 Direction::forward, &shared_ticket);

  const int first_sample = stage.group * sequences, existing = min(sequences, problem.batch - first_sample);
  const int first_sequence = stage.model * problem.batch + first_sample;
  load_parameters(shared, at,
                  problem.parameters + stage.model * problem.parameter_count + problem.first_block +
                      static_cast<size_t>(stage.layer) * problem.offsets.size,
                  problem.offsets, problem.sizes);
  for (int m = 0; m < sequences; ++m) {
    const bool given = problem.initial_state && m < existing;
    const auto from = StateOfLayer::of(problem.initial_state, first_sequence + m, stage.layer, problem.layers,
                                       problem.sizes);
    import_states(shared + at.state + m * s.state_count(), given ? from.states : nullptr, problem.sizes);
    for (int i = threadIdx.x; i < 4 * s.d_inner; i += blockDim.x)
      shared[at.window + m * 4 * s.d_inner + i] =
          given && i % 4 > 0 ? from.window[(i % 4 - 1) * s.d_inner + i / 4] : 0;
  }

  const auto tensor = [&](float* data, int layer, size_t layer_stride, int rows, int first_quad) {
    const size_t sequence_stride = static_cast<size_t>(problem.quads) * rows * 4;
    return TileView{data + layer * layer_stride + first_sequence * sequence_stride +
                        static_cast<size_t>(first_quad) * rows * 4,
                    rows, sequence_stride, existing, problem.quads - first_quad};
  };
  const size_t all_sequences = static_cast<size_t>(problem.models) * problem.batch;

  const int chunks = (problem.quads + length - 1) / length;
  for (int c = 0; c < chunks; ++c) {
    const int first_quad = c * length;
    const Chunk chunk{
        first_quad, min(4 * length, problem.time - 4 * first_quad),
        problem.checkpoints ? problem.checkpoints + ((stage.layer * all_sequences + first_sequence) *
                                                         static_cast<size_t>(problem.quads) +
                                                     first_quad) *
                                                        s.checkpoint_size()
                            : nullptr};
    const TileView tape = tensor(problem.tape, stage.layer, all_sequences * problem.quads * s.tape_rows() * 4,
                                 s.tape_rows(), first_quad);

    wait_for_chunk(stage, c);
    load_rows(shared + at.h, tensor(problem.h, stage.layer, problem.h_layer_stride, s.d_model, first_quad),
              s.d_model, columns);
    wait_for_copies();
    __syncthreads();
    layer_norm_forward(shared + at.v, nullptr, nullptr, shared + at.h, shared + at.norm_weight,
                       shared + at.norm_bias, s.d_model, columns);
    __syncthreads();

    multiply<in_tile>(shared + at.in_proj, at.in_ld, s.d_model, 2 * s.d_inner, shared + at.v, columns,
                      [&](int o, int q, float4 sums) {
                        float* const rows =
                            shared + (o < s.d_inner ? at.x : at.z - s.d_inner * columns.stride);
                        quad_at(rows + o * columns.stride + 4 * q) = sums;
                      });
    __syncthreads();

    const float* const window = shared + at.window;
    for_each_quad(s.d_inner, columns, [&](int channel, int q) {
      const float* const x = shared + at.x + channel * columns.stride + 4 * q;
      const int m = columns.sequence_of(q);
      const float4 before =
          q == m * length ? quad_at(window + (m * s.d_inner + channel) * 4) : quad_at(x - 4);
      const float4 sums = convolve(quad_at(shared + at.conv_weight + 4 * channel),
                                   shared[at.conv_bias + channel], before, quad_at(x));
      quad_at(shared + at.v + channel * columns.stride + 4 * q) = map4(sums, silu);
    });
    __syncthreads();

    multiply<out_tile>(shared + at.x_proj, at.projected_ld, s.d_inner, s.projected(), shared + at.v, columns,
                       [&](int o, int q, float4 sums) {
                         quad_at(shared + at.projected + o * columns.stride + 4 * q) = sums;
                       });
    if (problem.tape) {
      store_rows(tape, shared + at.x, s.d_inner, columns);
      store_rows(tape.skip_rows(s.d_inner), shared + at.z, s.d_inner, columns);
    }
    if (c + 1 < chunks)
      for (int i = threadIdx.x; i < sequences * s.d_inner; i += blockDim.x) {
        const int m = i / s.d_inner, channel = i % s.d_inner;
        quad_at(shared + at.window + 4 * i) =
            quad_at(shared + at.x + channel * columns.stride + 4 * ((m + 1) * length - 1));
      }
    else if (problem.final_state)  // the last three x; some may be from before the chunk
      for (int i = threadIdx.x; i < existing * 3 * s.d_inner; i += blockDim.x) {
        const int m = i / (3 * s.d_inner), k = i / s.d_inner % 3, channel = i % s.d_inner,
                  step = chunk.steps + k - 3;
        StateOfLayer::of(problem.final_state, first_sequence + m, stage.layer, problem.layers, problem.sizes)
            .window[k * s.d_inner + channel] =
            step >= 0 ? shared[at.x + channel * columns.stride + 4 * m * length + step]
                      : window[(m * s.d_inner + channel) * 4 + step + 4];
      }
    __syncthreads();

    for_each_quad(s.d_inner, columns, [&](int channel, int q) {
      float4 step = splat(shared[at.step_bias + channel]);
      for (int r = 0; r < s.rank; ++r)
        step = fma4(shared[at.step_weight + channel * s.rank + r],
                    quad_at(shared + at.projected + r * columns.stride + 4 * q), step);
      const int first = 4 * columns.quad_in_sequence(q);
      quad_at(shared + at.x + channel * columns.stride + 4 * q) =
          keep_first(map4(step, softplus), chunk.steps - first);
    });
    __syncthreads();

    scan_forward(shared, at, columns, chunk, s);
    if (problem.tape)
      store_rows(tape.skip_rows(2 * s.d_inner), shared + at.projected, s.projected(), columns);
    __syncthreads();

    multiply<out_tile>(shared + at.out_proj, at.out_ld, s.d_inner, s.d_model, shared + at.x, columns,
                       [&](int o, int q, float4 sums) {
                         float* const h = shared + at.h + o * columns.stride + 4 * q;
                         quad_at(h) = quad_at(h) + sums;
                       });
    __syncthreads();
    store_rows(tensor(problem.h, stage.layer + 1, problem.h_layer_stride, s.d_model, first_quad),
               shared + at.h, s.d_model, columns);
    publish_chunks(stage, c + 1);
  }

  if (problem.final_state)
    for (int m = 0; m < existing; ++m)
      export_states(StateOfLayer::of(problem.final_state, first_sequence + m, stage.layer, problem.layers,
                                     problem.sizes)
                        .states,
                    shared + at.state + m * s.state_count(), problem.sizes);
}

using ForwardVariant = Variant<void (*)(MambaForward), MambaSizes>;

template <class Sizes, int LENGTH, int THREADS, int BLOCKS>
constexpr ForwardVariant variant(int d_model = 0, int d_state = 0) {
  using C = Columns<1, LENGTH>;
  const auto bytes = [](const MambaSizes& sizes, int) {
    return sizeof(float) * static_cast<std::size_t>(Layout(sizes, C{}).total);
  };
  return {mamba_forward_kernel<Sizes, C, THREADS, BLOCKS>,
          bytes,
          THREADS,
          1,
          LENGTH,
          BLOCKS,
          Sizes::states_per_thread,
          d_model,
          d_state};
}
template <int D_MODEL, int D_STATE, int LENGTH>
constexpr ForwardVariant fixed() {
  return variant<FixedMambaSizes<D_MODEL, D_STATE>, LENGTH, 128, 3>(D_MODEL, D_STATE);
}

/// Three small blocks a multiprocessor hide each other's latencies; larger networks take one to themselves.
const ForwardVariant variants[] = {fixed<22, 12, 16>(),
                                   fixed<24, 12, 12>(),
                                   fixed<10, 16, 16>(),
                                   variant<FixedMambaSizes<63, 16>, 7, 384, 1>(63, 16),
                                   variant<AnyMambaSizes<4>, 12, 128, 3>(),
                                   variant<AnyMambaSizes<4>, 8, 384, 1>(),
                                   variant<AnyMambaSizes<4>, 2, 384, 1>()};

}  // namespace

std::optional<LaunchPlan> plan_mamba_forward(const MambaSizes& sizes, const SharedMemory& memory) {
  return choose(std::span<const ForwardVariant>(variants), sizes, 0, memory,
                [&](const ForwardVariant& v) { return suits(v, sizes); });
}

void launch_mamba_forward(const MambaForward& problem, const LaunchPlan& plan, cudaStream_t stream) {
  const auto kernel = variants[plan.variant].kernel;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(plan.bytes));
  kernel<<<problem.models * plan.groups(problem.batch) * problem.layers, plan.threads, plan.bytes, stream>>>(
      problem);
}

}  // namespace mac::cuda
