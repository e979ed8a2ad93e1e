// Forward pass of the Mamba layers. One block is one stage of the pipeline (pipeline.cuh); for each chunk of
// time it takes h through layer norm, in_proj, convolution, x_proj, dt_proj, scan, gate and out_proj without
// leaving shared memory. The equations are in network/kinds/mamba/reference.hpp.
//
// A warp owns a slab of 16 channels, within which everything stays that concerns single channels. Helper
// warps do what lies before and after, a chunk behind or ahead:
//
//   slabs      | in_proj, convolution, x_proj (c) | Δ, scan (c)                  | in_proj (c + 1)
//   helpers    | out_proj (c − 1)                 | fetch h, layer norm (c + 1)  | out_proj (c)
#include <array>

#include "network/cuda/pipeline.cuh"
#include "network/cuda/tensor_cores.cuh"
#include "network/cuda/tuned_networks.hpp"
#include "network/kinds/mamba/cuda/scan.cuh"

namespace mac::cuda {

namespace {

/// Places in shared memory, in floats.
struct Layout {
  int in_proj, x_proj, out_proj;  // in tiles; in_proj's x and z each fill whole tiles
  int norm_weight, norm_bias, conv_weight, conv_bias, step_weight, step_bias, D;
  int window;                        // (d_inner, 4): the quad of x before the chunk
  int u, x, z, v, gated, projected;  // rows. u is LN(h); Δ takes the place of x
  int total;

  template <class Sizes, class TimeColumns>
  __host__ __device__ Layout(const Sizes& s, TimeColumns columns) {
    SharedLayout shared;
    in_proj = shared.take(tile_floats(32 * s.slabs(), s.d_model));
    x_proj = shared.take(tile_floats(s.projected(), s.d_inner));
    out_proj = shared.take(tile_floats(s.d_model, s.d_inner));
    norm_weight = shared.take(s.d_model), norm_bias = shared.take(s.d_model);
    conv_weight = shared.take(4 * s.d_inner), conv_bias = shared.take(s.d_inner);
    step_weight = shared.take(s.d_inner * s.rank), step_bias = shared.take(s.d_inner);
    D = shared.take(s.d_inner);
    window = shared.take(s.d_inner * 4);
    const auto rows = [&](int count) { return shared.take(count * columns.stride); };
    u = rows(s.d_model), x = rows(s.d_inner), z = rows(s.d_inner), v = rows(s.d_inner);
    gated = rows(s.d_inner), projected = rows(s.projected());
    total = shared.used;
  }
};

/// Column tiles that a warp takes at once in x_proj and in out_proj, so that all warps have work.
template <class C, class Sizes, int WARPS>
constexpr int width_for_slabs() {
  if constexpr (Sizes::fixed)
    return width_for<C>(Sizes::slabs());
  else
    return width_for<C>(WARPS - 1);
}
template <class C, class Sizes, int WARPS>
constexpr int width_for_helpers() {
  constexpr int tiles = C::quads / 2;
  if constexpr (Sizes::fixed)
    for (const int width : {3, 2})
      if (tiles % width == 0 && tiles / width * tiles_of(Sizes::d_model, 32) >= WARPS - Sizes::slabs())
        return width;
  return !Sizes::fixed && tiles % 2 == 0 ? 2 : 1;
}

/// What a block knows about itself.
template <class C, class Sizes, int W, Run RUN>
struct Block {
  static constexpr C columns{};
  static constexpr int length = C::quads, warps = W;
  static constexpr int x_proj_width = width_for_slabs<C, Sizes, W>(),
                       out_proj_width = width_for_helpers<C, Sizes, W>();
  using S = Sizes;
  using Chunk = ChunkOfRun<RUN>;
  const MambaForward& problem;
  const Sizes s;
  const Layout at;
  float* shared;
  Stage stage;

  __device__ float* row(int rows, int r) const { return shared + rows + r * columns.stride; }
  __device__ float4& quad(int rows, int r, int q) const { return quad_at(row(rows, r) + 4 * q); }
  __device__ float2& pair(int rows, int r, int column) const {
    return *reinterpret_cast<float2*>(row(rows, r) + column);
  }
  __device__ int warp() const { return static_cast<int>(threadIdx.x / 32); }
  __device__ Team slabs() const { return {static_cast<int>(threadIdx.x), 32 * s.slabs()}; }
  /// The warps without a slab.
  __device__ Team helpers() const {
    return {static_cast<int>(threadIdx.x) - 32 * s.slabs(), 32 * (warps - s.slabs())};
  }
  __device__ void meet_all() const { meet<Meeting::all>(32 * warps); }
  __device__ const float* parameters() const {
    return problem.parameters + stage.model * problem.parameter_count + problem.first_block +
           static_cast<size_t>(stage.layer) * problem.offsets.size;
  }
  __device__ size_t sequence_of_layer() const {
    return stage.layer * static_cast<size_t>(problem.models) * problem.batch + stage.sequence;
  }
  /// Of the sequence that a quad of the run belongs to.
  __device__ StateOfLayer state(const float* of, int quad) const {
    return StateOfLayer::of(of, sequence_of<RUN>(problem, stage, quad), stage.layer, problem.layers,
                            problem.sizes);
  }
  __device__ int chunks() const { return stage.chunks(length); }
  __device__ TileView h(int layer, int first_quad) const {
    return {problem.h + layer * problem.h_layer_stride +
                (static_cast<size_t>(stage.sequence) * problem.quads + first_quad) * s.d_model * 4,
            s.d_model, stage.quads - first_quad};
  }
  __device__ TileView tape(int first_quad) const {
    return {problem.tape + (sequence_of_layer() * problem.quads + first_quad) * s.tape_rows() * 4,
            s.tape_rows(), stage.quads - first_quad};
  }
};

/// Steps first + c and the next of a row in device memory; `first` is a multiple of four.
__device__ inline float2* pair_at(const TileView& tensor, int row, int first, int c) {
  return reinterpret_cast<float2*>(tensor.data + first * tensor.rows + c / 4 * (4 * tensor.rows) + 4 * row +
                                   c % 4);
}

template <class B>
__device__ void load_parameters(const B& b) {
  const auto& s = b.s;
  const MambaOffsets& from = b.problem.offsets;
  const float* const w = b.parameters();
  load_tiles(b.shared + b.at.in_proj, 32 * s.slabs(), s.d_model, [&](int o, int i) {
    const int half = o / (16 * s.slabs()), channel = o % (16 * s.slabs());
    return channel < s.d_inner ? w[from.in_proj + (half * s.d_inner + channel) * s.d_model + i] : 0.0f;
  });
  load_tiles(b.shared + b.at.x_proj, s.projected(), s.d_inner, [&](int o, int channel) {
    const int r = projected_row(b.problem.sizes, o);
    return r < 0 ? 0.0f : w[from.x_proj + r * s.d_inner + channel];
  });
  load_tiles(b.shared + b.at.out_proj, s.d_model, s.d_inner,
             [&](int o, int channel) { return w[from.out_proj + o * s.d_inner + channel]; });
  load_small_parameters(b.shared, b.at, s, w, from);
  for (int channel = threadIdx.x; channel < s.d_inner; channel += blockDim.x)
    quad_at(b.shared + b.at.window + 4 * channel) = window_before(b, 0, channel);
}

/// Helpers: u = LN(h) of a chunk, as soon as the layer before has it.
template <class B>
__device__ void load_chunk(const B& b, int c, int& seen) {
  const Team team = b.helpers();
  if (team.thread == 0) wait_for_upstream(b.stage, c, seen);
  meet<Meeting::helpers>(team.threads);
  load_rows(b.shared + b.at.u, b.h(b.stage.layer, c * b.length), b.s.d_model, b.columns, team);
  wait_for_copies();
  meet<Meeting::helpers>(team.threads);
  normalise(nullptr, b.shared + b.at.u, b.s.d_model, b.columns, team, [&](int i, int column, float n) {
    b.row(b.at.u, i)[column] = fmaf(b.shared[b.at.norm_weight + i], n, b.shared[b.at.norm_bias + i]);
  });
}

/// The quad of x before quad q.
template <class B>
__device__ float4 x_before(const B& b, const typename B::Chunk& chunk, int channel, int q) {
  return chunk.begins(q) ? window_before(b, chunk.first_quad + q, channel)
         : q == 0        ? quad_at(b.shared + b.at.window + 4 * channel)
                         : b.quad(b.at.x, channel, q - 1);
}

/// The last three x of the sequence that ends with quad q; some may be in the quad before it.
template <class B>
__device__ void write_final_window(const B& b, const typename B::Chunk& chunk, int channel, int q) {
  const float4 before = x_before(b, chunk, channel, q);
  float* const to = b.state(b.problem.final_state, chunk.first_quad + q).window + channel;
  for (int k = 0; k < 3; ++k) {
    const int step = chunk.steps(q) + k - 3;
    to[k * b.s.d_inner] = step == -2   ? before.z
                          : step == -1 ? before.w
                                       : b.row(b.at.x, channel)[4 * q + step];
  }
}

/// x, z and v of the warp's slab.
template <class B>
__device__ void in_proj_and_convolution(const B& b, const typename B::Chunk& chunk, const SlabThread& own) {
  const auto& s = b.s;
  constexpr int column_tiles = B::length / 2, width = column_tiles % 4 == 0   ? 4
                                                      : column_tiles % 3 == 0 ? 3
                                                      : column_tiles % 2 == 0 ? 2
                                                                              : 1;
  const TileView tape = b.tape(chunk.first_quad);
  const int stored_steps = b.problem.tape ? 4 * chunk.quads : 0;  // tensors have whole quads
  // The first of the lane's channels and columns; what lies between it and the others is known to the
  // compiler.
  const int lane_channel = 16 * b.warp() + static_cast<int>(threadIdx.x % 32 / 4);
  float2* const lane_tape = pair_at(tape, lane_channel, 0, threadIdx.x % 4 * 2);
#pragma unroll 1
  for (int tile = 0; tile < column_tiles; tile += width) {
    float2* const to = lane_tape + 4 * tile * s.tape_rows();
    multiply_tiles<RoundedTileC, 2, width>(
        b.shared + b.at.in_proj, b.warp(), s.slabs(), 32 * s.slabs(), s.d_model, b.shared + b.at.u, 8 * tile,
        b.columns, [&](int o, int first, int c, float2 sums) {
          const bool is_x = o - lane_channel < 16 * s.slabs();
          const int channel = is_x ? o : o - 16 * s.slabs();
          if (channel >= s.d_inner) return;
          b.pair(is_x ? b.at.x : b.at.z, channel, first + c) = sums;
          if (first + c < stored_steps)
            __stcg(to + (first / 2 - 4 * tile) * s.tape_rows() +
                       2 * (channel - lane_channel + (is_x ? 0 : s.d_inner)),
                   sums);
        });
  }
  __syncwarp();
  const float4 weight = quad_at(b.shared + b.at.conv_weight + 4 * own.channel);
  const float bias = b.shared[b.at.conv_bias + own.channel];
  own.for_each_quad<2>(b.length, [&](int q) {
    const float4 before = x_before(b, chunk, own.channel, q);
    b.quad(b.at.v, own.channel, q) =
        map4(convolve(weight, bias, before, b.quad(b.at.x, own.channel, q)), silu);
  });
  if (b.problem.final_state)
    own.for_each_quad(b.length, [&](int q) {
      if (chunk.ends(q)) write_final_window(b, chunk, own.channel, q);
    });
  __syncwarp();
  if (own.exists && own.half == 1)
    quad_at(b.shared + b.at.window + 4 * own.channel) = b.quad(b.at.x, own.channel, b.length - 1);
}

template <class B>
__device__ void x_proj(const B& b, const typename B::Chunk& chunk) {
  const TileView tape = b.tape(chunk.first_quad).skip_rows(2 * b.s.d_inner);
  multiply_all_tiles<RoundedTileC, B::x_proj_width>(b.shared + b.at.x_proj, b.s.projected(), b.s.d_inner,
                                                    b.shared + b.at.v, b.columns, b.slabs(),
                                                    [&](int o, int first, int c, float2 sums) {
                                                      b.pair(b.at.projected, o, first + c) = sums;
                                                      if (b.problem.tape && first + c < 4 * chunk.quads)
                                                        __stcg(pair_at(tape, o, first, c), sums);
                                                    });
}

/// Δ of the warp's slab.
template <class B>
__device__ void step_sizes(const B& b, const typename B::Chunk& chunk, const SlabThread& own) {
  own.for_each_quad<2>(b.length, [&](int q) {
    float4 step = splat(b.shared[b.at.step_bias + own.channel]);
    for (int r = 0; r < b.s.rank; ++r)
      step =
          fma4(b.shared[b.at.step_weight + own.channel * b.s.rank + r], b.quad(b.at.projected, r, q), step);
    b.quad(b.at.x, own.channel, q) = keep_first(map4(step, softplus), chunk.steps(q));
  });
  __syncwarp();
}

/// Adds up Δ of the chunk, for blocks with one sequence.
template <class B>
__device__ void add_step_sums(const B& b, int c, const SlabThread& own) {
  float half = 0;
  own.for_each_quad(b.length, [&](int q) { half += sum(b.quad(b.at.x, own.channel, q)); });
  const float of_chunk = half + __shfl_xor_sync(0xffffffffu, half, 16);
  float& total = b.problem.step_sums[b.stage.sequence * b.s.d_inner + own.channel];
  if (own.exists && own.half == 0) total = of_chunk + (c > 0 ? total : 0);
}

/// The states before the sequence that begins at a quad of the run.
template <class B, int STATES>
__device__ void start_states(const B& b, int quad, float (&state)[2][STATES], const ScanThread& thread) {
#pragma unroll
  for (int i = 0; i < 2 * STATES; ++i) state[i / STATES][i % STATES] = 0;
  if (!b.problem.initial_state) return;
  const float* const from = b.state(b.problem.initial_state, quad).states;
  for_each_state<STATES>(b.problem.sizes, thread, [&](int l, int i, int channel, int n) {
    state[l][i] = from[n * b.s.d_inner + channel];
  });
}

/// The states after the sequence that ends with a quad of the run.
template <class B, int STATES>
__device__ void write_final_states(const B& b, int quad, const float (&state)[2][STATES],
                                   const ScanThread& thread) {
  if (!b.problem.final_state || !thread.exists) return;
  float* const to = b.state(b.problem.final_state, quad).states;
  for_each_state<STATES>(b.problem.sizes, thread, [&](int l, int i, int channel, int n) {
    to[n * b.s.d_inner + channel] = state[l][i];
  });
}

template <class B, int STATES>
__device__ void scan_forward(const B& b, const typename B::Chunk& chunk, const float (&A)[2][STATES],
                             float (&state)[2][STATES], const ScanThread& thread, int lane) {
  const auto& s = b.s;
  const Layout& at = b.at;
  constexpr int stride = B::columns.stride;
  float* own[2] = {b.row(0, thread.own(0)), b.row(0, thread.own(1))};  // these and B move on quad by quad
  const float* B_rows = b.row(at.projected, s.rank + thread.group * STATES);
  const float D = b.shared[at.D + thread.channel];
  float* checkpoint = b.problem.checkpoints +
                      (b.sequence_of_layer() * b.problem.quads + chunk.first_quad) * s.checkpoint_size() +
                      thread.slab * 64 * STATES;

#pragma unroll 1
  for (int q = 0; q < chunk.quads;) {  // a piece of a sequence at a time
    if (chunk.begins(q)) start_states(b, chunk.first_quad + q, state, thread);
#pragma unroll 1
    for (const int end = chunk.end_of_piece(q); q < end; ++q) {
      if (b.problem.checkpoints) save_checkpoint(checkpoint, state, lane);
      checkpoint += s.checkpoint_size();
      float delta[2][4], input[2][4], p[2][4] = {};
#pragma unroll
      for (int l = 0; l < 2; ++l) {
        const float4 step = quad_at(own[l] + at.x);
        unpack(delta[l], step);
        unpack(input[l], step * quad_at(own[l] + at.v));
      }
#pragma unroll
      for (int i = 0; i < STATES; ++i) {
        float B_steps[4], C_steps[4];
        unpack(B_steps, quad_at(B_rows + i * stride));
        unpack(C_steps, quad_at(B_rows + (4 * STATES + i) * stride));
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int l = 0; l < 2; ++l) {
            const float decay = exp2_approx(delta[l][j] * A[l][i]);
            state[l][i] = fmaf(decay, state[l][i], input[l][j] * B_steps[j]);
            p[l][j] = fmaf(C_steps[j], state[l][i], p[l][j]);
          }
      }
      const float2 sums = sum_over_states(p, thread.group);
      const auto pair_at = [&](int rows) -> float2& {
        return *reinterpret_cast<float2*>(own[0] + rows + thread.first_step());
      };
      const float2 z = pair_at(at.z), v = pair_at(at.v);
      if (thread.exists)
        pair_at(at.gated) = {fmaf(D, v.x, sums.x) * silu(z.x), fmaf(D, v.y, sums.y) * silu(z.y)};
      own[0] += 4, own[1] += 4, B_rows += 4;
    }
    if (chunk.begins(q)) write_final_states(b, chunk.first_quad + q - 1, state, thread);
  }
}

/// Helpers: h + out_proj, to the next layer.
template <class B>
__device__ void out_proj(const B& b, int c) {
  const Team team = b.helpers();
  const TileView from = b.h(b.stage.layer, c * b.length), to = b.h(b.stage.layer + 1, c * b.length);
  multiply_all_tiles<RoundedTileC, B::out_proj_width>(
      b.shared + b.at.out_proj, b.s.d_model, b.s.d_inner, b.shared + b.at.gated, b.columns, team,
      [&](int o, int first, int c, float2 sums) {
        if (first + c < 4 * to.quads) __stcg(pair_at(to, o, first, c), sums);
      },
      [&](int o, int first, int c) {
        return first + c < 4 * from.quads ? __ldcg(pair_at(from, o, first, c)) : make_float2(0, 0);
      });
  meet<Meeting::helpers>(team.threads);
  if (team.thread == 0) publish_to_downstream(b.stage, c + 1);
}

template <class B>
__device__ void walk_slab(const B& b) {
  constexpr int states = B::S::states_per_thread;
  const MambaForward& p = b.problem;
  const int lane = kept_lane();
  const ScanThread thread(b.warp(), lane, b.s.d_inner);
  const SlabThread own(b.warp(), b.s.d_inner);
  float A[2][states], state[2][states];
  load_decay(A, b.parameters() + p.offsets.A_log, p.sizes, thread);
  start_states(b, 0, state, thread);
  b.meet_all();  // the first chunk is there
  for (int c = 0; c < b.chunks(); ++c) {
    const typename B::Chunk chunk(p, b.stage, c, b.length);
    in_proj_and_convolution(b, chunk, own);
    meet<Meeting::workers>(b.slabs().threads);
    x_proj(b, chunk);
    b.meet_all();
    step_sizes(b, chunk, own);
    if (p.step_sums) add_step_sums(b, c, own);
    scan_forward(b, chunk, A, state, thread, lane);
    b.meet_all();
  }
  write_final_states(b, b.stage.quads - 1, state, thread);
}

template <class B>
__device__ void walk_helper(const B& b) {
  const bool with_output = !b.problem.step_sums;
  int seen = 0;
  load_chunk(b, 0, seen);
  b.meet_all();
  for (int c = 0; c < b.chunks(); ++c) {
    if (c > 0 && with_output) out_proj(b, c - 1);
    b.meet_all();
    if (c + 1 < b.chunks()) load_chunk(b, c + 1, seen);
    b.meet_all();
  }
  if (with_output) out_proj(b, b.chunks() - 1);
}

template <class Sizes, class C, int THREADS, int BLOCKS, Run RUN>
__global__ void __launch_bounds__(THREADS, BLOCKS) mamba_forward_kernel(const MambaForward problem) {
  extern __shared__ float4 shared_quads[];
  __shared__ int shared_ticket;
  const Block<C, Sizes, THREADS / 32, RUN> b{problem, Sizes(problem.sizes), Layout(Sizes(problem.sizes), C{}),
                                             reinterpret_cast<float*>(shared_quads),
                                             take_stage<RUN>(problem, Direction::forward, &shared_ticket)};
  prepare_meetings(b.helpers().threads);
  load_parameters(b);
  __syncthreads();
  if (b.warp() < b.s.slabs())
    walk_slab(b);
  else
    walk_helper(b);
}

using ForwardVariant = Variant<void (*)(MambaForward), MambaSizes>;

template <class Sizes, int LENGTH, int THREADS, int BLOCKS, Run RUN>
constexpr ForwardVariant variant(int d_model = 0, int d_state = 0) {
  using C = TimeColumns<LENGTH>;
  static_assert(LENGTH % 2 == 0);
  const auto bytes = [](const MambaSizes& sizes, int) {
    return sizeof(float) * static_cast<std::size_t>(Layout(sizes, C{}).total + 4);
  };
  return {mamba_forward_kernel<Sizes, C, THREADS, BLOCKS, RUN>,
          bytes,
          THREADS,
          BLOCKS,
          RUN,
          Sizes::states_per_thread,
          d_model,
          d_state};
}
/// Three small blocks a multiprocessor hide each other's latencies; larger networks take one to themselves.
constexpr Tuning tunings[] = {{"burgers", 12, 128, 3, Run::one},
                              {"kdv", 12, 128, 2, Run::one},
                              {"power_grid", 16, 128, 3, Run::one},
                              {"lorenz96", 8, 384, 1, Run::several}};

template <std::size_t I>
constexpr ForwardVariant tuned() {
  constexpr PaperNetwork network = tuned_network(LayerKind::mamba, I);
  constexpr int d_model = network.shape.d_model, d_state = network.shape.d_state;
  constexpr Tuning t = tuning_for(tunings, network.system);
  return variant<FixedMambaSizes<d_model, d_state>, t.length, t.threads, t.blocks, t.run>(d_model, d_state);
}
template <std::size_t... I>
constexpr auto all_variants(std::index_sequence<I...>) {
  return std::to_array<ForwardVariant>({tuned<I>()..., variant<AnyMambaSizes<4>, 8, 128, 3, Run::several>(),
                                        variant<AnyMambaSizes<4>, 8, 384, 1, Run::several>(),
                                        variant<AnyMambaSizes<4>, 2, 384, 1, Run::several>()});
}
const auto variants = all_variants(TunedNetworks<LayerKind::mamba>());

}  // namespace

std::optional<LaunchPlan> plan_mamba_forward(const MambaSizes& sizes, const SharedMemory& memory) {
  return choose(std::span<const ForwardVariant>(variants), sizes, 0, memory,
                [&](const ForwardVariant& v) { return suits(v, sizes) && sizes.slabs() < v.threads / 32; });
}

void launch_mamba_forward(const MambaForward& problem, const LaunchPlan& plan, cudaStream_t stream) {
  const auto kernel = variants[plan.variant].kernel;
  allow_shared_memory(kernel, plan.bytes);
  kernel<<<problem.models * problem.groups.count * problem.layers, plan.threads, plan.bytes, stream>>>(
      problem);
}

}  // namespace mac::cuda
