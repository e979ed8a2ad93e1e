// What the warps of the Mamba's backward pass share: sizes, places in shared memory, chunks.
#pragma once

#include "network/cuda/pipeline.cuh"
#include "network/cuda/tensor_cores.cuh"
#include "network/kinds/mamba/cuda/scan.cuh"

namespace mac::cuda::backward {

inline constexpr int most_ranks = 6;  // of networks whose weights fit shared memory

/// Places of the weight gradients that are summed in memory, in floats.
struct GradientLayout {
  int out_proj, x_proj, in_proj_x, in_proj_z;  // (d_inner, d_model), (d_inner, projected), (d_inner, d_model)
  int total;

  /// holders: see warps_that_hold.
  template <class Sizes>
  __host__ __device__ GradientLayout(const Sizes& s, int holders) {
    SharedLayout memory;
    const int of_model = tile_floats(s.d_inner, s.d_model);
    out_proj = memory.take(holders == 0 ? of_model : 0);
    x_proj = memory.take(holders == 0 ? tile_floats(s.d_inner, s.projected()) : 0);
    in_proj_x = memory.take(holders < 2 ? of_model : 0);
    in_proj_z = memory.take(holders < 2 ? of_model : 0);
    total = memory.used;
  }
};

/// Places in shared memory, in floats.
struct Layout {
  int out_proj, x_proj, in_proj;  // transposed, in tiles
  int norm_weight, norm_bias, conv_weight, conv_bias, step_weight, step_bias, D;
  int d_window;       // (d_inner, 4): dc after the chunk
  int scales;         // (columns): of the layer norm
  int window;         // (d_inner, 4): x before the chunk; twice if chunks overlap
  int tape, d_h;      // rows, twice if chunks overlap; the tape is x, z, projected, at the end d_u
  int tape_floats;    // of one of the two
  int normalised;     // rows
  int v, d_v, gated;  // rows, with room for whole slabs of channels; v and Δ, twice if helpers make them
  int scan_sums;
  int d_norm_weight, d_norm_bias;
  int gradients;  // see GradientLayout, if they are summed here
  int total;

  template <class Sizes, class TimeColumns>
  __host__ __device__ Layout(const Sizes& s, TimeColumns columns, bool overlap, int holders,
                             int shared_gradients) {
    SharedLayout shared;
    out_proj = shared.take(tile_floats(s.d_inner, s.d_model));
    x_proj = shared.take(tile_floats(s.d_inner, s.projected()));
    in_proj = shared.take(tile_floats<8>(s.d_model, 2 * s.d_inner));
    norm_weight = shared.take(s.d_model), norm_bias = shared.take(s.d_model);
    conv_weight = shared.take(4 * s.d_inner), conv_bias = shared.take(s.d_inner);
    step_weight = shared.take(s.d_inner * s.rank), step_bias = shared.take(s.d_inner);
    D = shared.take(s.d_inner);
    d_window = shared.take(4 * s.d_inner);
    scales = shared.take(4 * columns.quads);
    const auto rows = [&](int count) { return shared.take(count * columns.stride); };
    const int copies = overlap ? 2 : 1;
    window = shared.take(copies * 4 * s.d_inner);
    const int last_rows = s.projected() > s.d_model ? s.projected() : s.d_model;
    tape_floats = (2 * s.d_inner + last_rows) * columns.stride;
    tape = shared.take(copies * tape_floats), d_h = rows(copies * s.d_model);
    normalised = rows(s.d_model);
    v = rows((holders == 2 ? 2 : 1) * 2 * 16 * s.slabs());
    d_v = rows(16 * s.slabs()), gated = rows(16 * s.slabs());
    scan_sums = shared.take(s.slabs() * columns.quads * 32 * s.states_per_thread);
    d_norm_weight = shared.take(s.d_model), d_norm_bias = shared.take(s.d_model);
    gradients = shared.take(shared_gradients);
    total = shared.used;
  }
};

/// A chunk of time and its rows.
template <Run RUN>
struct ChunkAndRows : ChunkOfRun<RUN> {
  int number;
  int window, x, z, projected, v, delta, d_h;
};

/// Tiles of the dense layers, where they are known at compile time.
template <class Sizes, bool = Sizes::fixed>
struct TileCounts {
  static constexpr int slabs = 1, model = 4, projected = 1;
};
template <class Sizes>
struct TileCounts<Sizes, true> {
  static constexpr int slabs = Sizes::slabs(), model = tiles_of(Sizes::d_model, 8),
                       projected = tiles_of(Sizes::projected(), 8);
};

/// How many helper warps hold weight gradients in their registers: one those of out_proj and x_proj, two all.
template <class Sizes, int WARPS>
constexpr int warps_that_hold() {
  using Tiles = TileCounts<Sizes>;
  constexpr int helpers = WARPS - Tiles::slabs;
  const bool room = Sizes::fixed && Tiles::slabs * (Tiles::model + Tiles::projected) <= 21;
  return room && helpers <= 2 ? helpers : 0;
}

/// What a block knows about itself. OVERLAP: helpers work on one chunk while the slabs are at the next.
template <class C, class Sizes, int WARPS, bool OVERLAP, Run RUN>
struct Block {
  static constexpr C columns{};
  static constexpr int length = C::quads;
  static constexpr bool overlap = OVERLAP;
  static constexpr Run run = RUN;
  static constexpr int holders = warps_that_hold<Sizes, WARPS>();
  static_assert(holders < 2 || OVERLAP);
  using S = Sizes;
  using Chunk = ChunkAndRows<RUN>;
  const MambaBackward& problem;
  const Sizes s;
  const Layout at;
  const GradientLayout gradient_at;
  float* shared;
  Stage stage;
  float* gradients;  // in shared or device memory
  float* partial;    // (offsets.size), in device memory: the block's results

  __device__ float* row(int rows, int r) const { return shared + rows + r * columns.stride; }
  __device__ float4& quad(int rows, int r, int q) const { return quad_at(row(rows, r) + 4 * q); }
  __device__ float2& pair(int rows, int r, int column) const {
    return *reinterpret_cast<float2*>(row(rows, r) + column);
  }
  /// The layer norm's output.
  __device__ float u(int i, int column) const {
    return fmaf(shared[at.norm_weight + i], row(at.normalised, i)[column], shared[at.norm_bias + i]);
  }
  __device__ int warp() const { return static_cast<int>(threadIdx.x / 32); }
  /// All warps, those with a slab and the helpers.
  __device__ void meet_all() const { meet<Meeting::all>(32 * WARPS); }
  /// The warps without a slab.
  __device__ Team helpers() const {
    return {static_cast<int>(threadIdx.x) - 32 * s.slabs(), 32 * (WARPS - s.slabs())};
  }
  __device__ bool first_helper() const { return warp() == s.slabs(); }
  __device__ const float* parameters() const {
    return problem.parameters + stage.model * problem.parameter_count + problem.first_block +
           static_cast<size_t>(stage.layer) * problem.offsets.size;
  }
  /// Of the sequence that a quad of the run belongs to.
  __device__ StateOfLayer state(const float* of, int quad) const {
    return StateOfLayer::of(of, sequence_of<RUN>(problem, stage, quad), stage.layer, problem.layers,
                            problem.sizes);
  }
  __device__ size_t sequence_of_layer() const {
    return stage.layer * static_cast<size_t>(problem.models) * problem.batch + stage.sequence;
  }
  /// From quad `first_quad` of the run on.
  __device__ TileView tensor(const float* data, size_t of_sequence, int rows, int first_quad) const {
    return {const_cast<float*>(data) + (of_sequence * problem.quads + first_quad) * rows * 4, rows,
            stage.quads - first_quad};
  }
  __device__ TileView tape(int first_quad) const {
    return tensor(problem.tape, sequence_of_layer(), s.tape_rows(), first_quad);
  }
  __device__ const float* checkpoint(int quad) const {
    return problem.checkpoints + (sequence_of_layer() * problem.quads + quad) * s.checkpoint_size();
  }
  __device__ int chunks() const { return stage.chunks(length); }
  __device__ Chunk chunk(int number) const {
    const int odd = overlap ? number % 2 : 0;
    const int x = at.tape + odd * at.tape_floats;
    const int slab_rows = 16 * s.slabs() * columns.stride,
              v = at.v + (holders == 2 ? odd : 0) * 2 * slab_rows;
    return {ChunkOfRun<RUN>(problem, stage, number, length),
            number,
            at.window + odd * 4 * s.d_inner,
            x,
            x + s.d_inner * columns.stride,
            x + 2 * s.d_inner * columns.stride,
            v,
            v + slab_rows,
            at.d_h + odd * s.d_model * columns.stride};
  }
};

/// dt_proj's output, before softplus.
template <class B>
__device__ float4 step_before_softplus(const B& b, const typename B::Chunk& chunk, int channel, int q) {
  float4 step = splat(b.shared[b.at.step_bias + channel]);
  for (int r = 0; r < b.s.rank; ++r)
    step = fma4(b.shared[b.at.step_weight + channel * b.s.rank + r], b.quad(chunk.projected, r, q), step);
  return step;
}

/// The convolution of a quad and the two quads of x that it comes from.
struct Convolution {
  float4 before, x, sum;

  template <class B>
  __device__ Convolution(const B& b, const typename B::Chunk& chunk, int channel, int q)
      : before(chunk.begins(q) ? window_before(b, chunk.first_quad + q, channel)
               : q == 0        ? quad_at(b.shared + chunk.window + 4 * channel)
                               : b.quad(chunk.x, channel, q - 1)),
        x(b.quad(chunk.x, channel, q)),
        sum(convolve(quad_at(b.shared + b.at.conv_weight + 4 * channel), b.shared[b.at.conv_bias + channel],
                     before, x)) {}
};

/// v and Δ of a quad, from the tape.
template <class B>
__device__ void recompute(const B& b, const typename B::Chunk& chunk, int channel, int q) {
  b.quad(chunk.v, channel, q) = map4(Convolution(b, chunk, channel, q).sum, silu);
  b.quad(chunk.delta, channel, q) =
      keep_first(map4(step_before_softplus(b, chunk, channel, q), softplus), chunk.steps(q));
}

}  // namespace mac::cuda::backward
