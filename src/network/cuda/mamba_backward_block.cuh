// What the warps of the Mamba's backward pass share: sizes, places in shared memory, chunks.
#pragma once

#include "network/cuda/mamba_scan.cuh"
#include "network/cuda/pipeline.cuh"
#include "network/cuda/tensor_cores.cuh"

namespace mac::cuda::backward {

inline constexpr int most_ranks = 6;  // of networks whose weights fit shared memory

/// Places of the weight gradients that are summed in memory, in floats.
struct GradientLayout {
  int out_proj, x_proj, in_proj_x, in_proj_z;  // (d_inner, d_model), (d_inner, projected), (d_inner, d_model)
  int total;

  /// held: those of out_proj and x_proj are summed in registers.
  template <class Sizes>
  __host__ __device__ GradientLayout(const Sizes& s, bool held) {
    SharedLayout memory;
    out_proj = memory.take(held ? 0 : tile_floats(s.d_inner, s.d_model));
    x_proj = memory.take(held ? 0 : tile_floats(s.d_inner, s.projected()));
    in_proj_x = memory.take(tile_floats(s.d_inner, s.d_model));
    in_proj_z = memory.take(tile_floats(s.d_inner, s.d_model));
    total = memory.used;
  }
};

/// Places in shared memory, in floats.
struct Layout {
  int out_proj, x_proj, in_proj;  // transposed, in tiles
  int norm_weight, norm_bias, conv_weight, conv_bias, step_weight, step_bias, D;
  int d_window;                               // (d_inner, 4): dc after the chunk
  int zeros;                                  // (columns)
  int scales;                                 // (columns): of the layer norm
  int window;                                 // (d_inner, 4): x before the chunk; twice if chunks overlap
  int tape, d_h;                              // rows, twice if chunks overlap; the tape is x, z, projected
  int normalised, d_u, v, d_v, gated, delta;  // rows
  int scan_sums;
  int d_norm_weight, d_norm_bias;
  int gradients;  // see GradientLayout, if they are summed here
  int total;

  template <class Sizes, class Columns>
  __host__ __device__ Layout(const Sizes& s, Columns columns, bool overlap, int shared_gradients) {
    SharedLayout shared;
    out_proj = shared.take(tile_floats(s.d_inner, s.d_model));
    x_proj = shared.take(tile_floats(s.d_inner, s.projected()));
    in_proj = shared.take(right_tile_floats(2 * s.d_inner, s.d_model));
    norm_weight = shared.take(s.d_model), norm_bias = shared.take(s.d_model);
    conv_weight = shared.take(4 * s.d_inner), conv_bias = shared.take(s.d_inner);
    step_weight = shared.take(s.d_inner * s.rank), step_bias = shared.take(s.d_inner);
    D = shared.take(s.d_inner);
    d_window = shared.take(4 * s.d_inner);
    scales = shared.take(4 * columns.quads), zeros = shared.take(4 * columns.quads);
    const auto rows = [&](int count) { return shared.take(count * columns.stride); };
    const int copies = overlap ? 2 : 1;
    window = shared.take(copies * 4 * s.d_inner);
    tape = rows(copies * s.tape_rows()), d_h = rows(copies * s.d_model);
    normalised = rows(s.d_model), d_u = rows(s.d_model);
    v = rows(s.d_inner), d_v = rows(s.d_inner), gated = rows(s.d_inner), delta = rows(s.d_inner);
    scan_sums = shared.take(s.slabs() * columns.quads * 32 * s.states_per_thread);
    d_norm_weight = shared.take(s.d_model), d_norm_bias = shared.take(s.d_model);
    gradients = shared.take(shared_gradients);
    total = shared.used;
  }
};

/// A chunk of time and its rows.
struct Chunk {
  int number, first_quad;
  int steps;  // that exist
  int window, x, z, projected, d_h;
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

/// Whether one helper warp has registers for the gradients of out_proj and x_proj.
template <class Sizes, int WARPS>
constexpr bool holds_gradients() {
  using Tiles = TileCounts<Sizes>;
  return Sizes::fixed && WARPS == Tiles::slabs + 1 && Tiles::slabs * (Tiles::model + Tiles::projected) <= 21;
}

/// What a block knows about itself. OVERLAP: helpers work on one chunk while the slabs are at the next.
template <class C, class Sizes, int WARPS, bool OVERLAP>
struct Block {
  static constexpr C columns{};
  static constexpr int length = C::quads;
  static constexpr bool overlap = OVERLAP;
  static constexpr bool held = holds_gradients<Sizes, WARPS>();
  using S = Sizes;
  const MambaBackward& problem;
  const Sizes s;
  const Layout at;
  const GradientLayout gradient_at;
  float* shared;
  Stage stage;
  int sequence;
  float* gradients;  // in shared or device memory
  float* partial;    // (offsets.size), in device memory: the block's results

  __device__ float* row(int rows, int r) const { return shared + rows + r * columns.stride; }
  __device__ float4& quad(int rows, int r, int q) const { return quad_at(row(rows, r) + 4 * q); }
  __device__ float2& pair(int rows, int r, int column) const {
    return *reinterpret_cast<float2*>(row(rows, r) + column);
  }
  __device__ int warp() const { return static_cast<int>(threadIdx.x / 32); }
  /// All warps, those with a slab and the helpers.
  __device__ void meet_all() const { meet<1>(32 * WARPS); }
  /// The warps without a slab.
  __device__ Team helpers() const {
    return {static_cast<int>(threadIdx.x) - 32 * s.slabs(), 32 * (WARPS - s.slabs())};
  }
  __device__ const float* parameters() const {
    return problem.parameters + stage.model * problem.parameter_count + problem.first_block +
           static_cast<size_t>(stage.layer) * problem.offsets.size;
  }
  __device__ StateOfLayer state(const float* of) const {
    return StateOfLayer::of(of, sequence, stage.layer, problem.layers, problem.sizes);
  }
  __device__ size_t sequence_of_layer() const {
    return stage.layer * static_cast<size_t>(problem.models) * problem.batch + sequence;
  }
  /// From quad `first_quad` of a sequence on.
  __device__ TileView tensor(const float* data, size_t of_sequence, int rows, int first_quad) const {
    return {const_cast<float*>(data) + (of_sequence * problem.quads + first_quad) * rows * 4, rows,
            problem.quads - first_quad};
  }
  __device__ TileView tape(int first_quad) const {
    return tensor(problem.tape, sequence_of_layer(), s.tape_rows(), first_quad);
  }
  __device__ const float* checkpoint(int quad) const {
    return problem.checkpoints + (sequence_of_layer() * problem.quads + quad) * s.checkpoint_size();
  }
  __device__ int chunks() const { return (problem.quads + length - 1) / length; }
  __device__ Chunk chunk(int number) const {
    const int first_quad = number * length, odd = overlap ? number % 2 : 0;
    const int x = at.tape + odd * s.tape_rows() * columns.stride;
    return {number,
            first_quad,
            min(4 * length, problem.time - 4 * first_quad),
            at.window + odd * 4 * s.d_inner,
            x,
            x + s.d_inner * columns.stride,
            x + 2 * s.d_inner * columns.stride,
            at.d_h + odd * s.d_model * columns.stride};
  }
};

}  // namespace mac::cuda::backward
