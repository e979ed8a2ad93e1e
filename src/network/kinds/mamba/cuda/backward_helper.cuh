// What the warps without a slab do in the Mamba's backward pass: they bring in the chunks, do the layer norm
// and what lies before it, and sum the weight gradients of the dense layers.
#pragma once

#include "network/kinds/mamba/cuda/backward_block.cuh"

namespace mac::cuda::backward {

/// Sums in registers. One warp has out_proj's, then x_proj's; of two the first has out_proj's and that of
/// in_proj's x, the second x_proj's and that of in_proj's z.
template <class B>
struct HeldGradients {
  using Tiles = TileCounts<typename B::S>;
  static constexpr int slabs = B::holders > 0 ? Tiles::slabs : 1,
                       tiles = Tiles::model > Tiles::projected ? Tiles::model : Tiles::projected;
  TileC first[slabs][tiles], second[slabs][tiles];
};

/// Starts bringing in what the slabs need of a chunk from the tape.
template <class B>
__device__ void fetch_tape(const B& b, int number) {
  const auto& s = b.s;
  const Team team = b.helpers();
  const typename B::Chunk chunk = b.chunk(number);
  const TileView tape = b.tape(chunk.first_quad);
  load_rows(b.shared + chunk.x, tape, s.tape_rows(), b.columns, team);
  for (int channel = team.thread; channel < s.d_inner; channel += team.threads) {
    float* const window = b.shared + chunk.window + 4 * channel;
    if (number > 0)
      copy_quad(window, tape.at(-1, channel));
    else
      quad_at(window) = window_before(b, 0, channel);
  }
  if (number == 0) return;
  // The chunk after it shall be in the L2 cache when its turn comes.
  const int before = chunk.first_quad - b.length;
  const auto prefetch = [&](const float* from, int floats) {
    for (int line = team.thread; line < floats / 32 + 1; line += team.threads)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(from + 32 * line));
  };
  prefetch(b.tape(before).data, b.length * s.tape_rows() * 4);
  prefetch(b.checkpoint(before), b.length * s.checkpoint_size());
}

/// v and Δ of a chunk whose tape is there.
template <class B>
__device__ void recompute_chunk(const B& b, const typename B::Chunk& chunk) {
  const Team team = b.helpers();
  for (int i = team.thread; i < b.s.d_inner * b.length; i += team.threads)
    recompute(b, chunk, i % b.s.d_inner, i / b.s.d_inner);
}

/// Starts bringing in the gradient from the layer above, as soon as it has it.
template <class B>
__device__ void fetch_gradient(const B& b, int number, int& seen) {
  const Team team = b.helpers();
  const typename B::Chunk chunk = b.chunk(number);
  if (team.thread == 0) wait_for_upstream(b.stage, b.chunks() - 1 - number, seen);
  meet<Meeting::helpers>(team.threads);
  load_rows(b.shared + chunk.d_h, b.tensor(b.problem.d_h, b.stage.sequence, b.s.d_model, chunk.first_quad),
            b.s.d_model, b.columns, team);
}

/// Starts bringing in h.
template <class B>
__device__ void fetch_h(const B& b, const typename B::Chunk& chunk) {
  const MambaProblem& p = b.problem;
  load_rows(b.shared + b.at.normalised,
            b.tensor(p.h + b.stage.layer * p.h_layer_stride, b.stage.sequence, b.s.d_model, chunk.first_quad),
            b.s.d_model, b.columns, b.helpers());
}

/// The gradient of x_proj's dt rows takes their place.
template <class B>
__device__ void step_backward(const B& b, const typename B::Chunk& chunk) {
  const auto& s = b.s;
  const Team team = b.helpers();
  const int items = s.rank * b.columns.quads, part = team.thread % 4;  // four threads a sum over the channels
  for (int item = team.thread / 4; item < round_up(items, 8); item += team.threads / 4) {
    const int existing = min(item, items - 1), r = existing / b.columns.quads, q = existing % b.columns.quads;
    float4 total = splat(0);
#pragma unroll
    for (int channel = part; channel < s.d_inner; channel += 4)
      total = fma4(b.shared[b.at.step_weight + channel * s.rank + r], b.quad(chunk.delta, channel, q), total);
    total = map4(total, sum_of_four_threads);
    if (item < items && part == 0) b.quad(chunk.projected, r, q) = total;
  }
}

/// The gradients of out_proj and x_proj.
template <class B>
__device__ void slab_gradients(const B& b, const typename B::Chunk& chunk, HeldGradients<B>& held) {
  const auto& s = b.s;
  const auto d_h = [&](int n, int column) { return b.row(chunk.d_h, n)[column]; };
  const auto d_projected = [&](int n, int column) { return b.row(chunk.projected, n)[column]; };
  const float *const gated = b.shared + b.at.gated, *const v = b.shared + chunk.v;
  if constexpr (B::holders > 0) {
    auto& x_proj = B::holders == 1 ? held.second : held.first;
#pragma unroll
    for (int slab = 0; slab < held.slabs; ++slab) {
      if (B::holders == 1 || b.first_helper())
        add_outer_product(held.first[slab], gated, slab, s.d_inner, 0, s.d_model, b.columns, d_h);
      if (B::holders == 1 || !b.first_helper())
        add_outer_product(x_proj[slab], v, slab, s.d_inner, 0, s.projected(), b.columns, d_projected);
    }
  } else {
    const Team team = b.helpers();
    for (int slab = team.thread / 32; slab < s.slabs(); slab += team.threads / 32) {
      float *const out_proj[1] = {b.gradients + b.gradient_at.out_proj}, *const x_proj[1] = {
                                                                             b.gradients +
                                                                             b.gradient_at.x_proj};
      const float *const left_out[1] = {gated}, *const left_x[1] = {v};
      add_outer_products(out_proj, left_out, slab, s.d_inner, s.d_model, b.columns, d_h);
      add_outer_products(x_proj, left_x, slab, s.d_inner, s.projected(), b.columns, d_projected);
    }
  }
}

/// The gradient of in_proj, if two helpers hold it.
template <class B>
__device__ void in_proj_gradient(const B& b, const typename B::Chunk& chunk, HeldGradients<B>& held) {
  const float* const rows = b.shared + (b.first_helper() ? chunk.x : chunk.z);
#pragma unroll
  for (int slab = 0; slab < held.slabs; ++slab)
    add_outer_product(held.second[slab], rows, slab, b.s.d_inner, 0, b.s.d_model, b.columns,
                      [&](int n, int column) { return b.u(n, column); });
}

/// Through in_proj and the layer norm to the gradient of h, for the layer below. d_u takes the place of
/// x_proj's output and its gradient, which have done their service.
template <class B>
__device__ void input_backward(const B& b, const typename B::Chunk& chunk) {
  const auto& s = b.s;
  const Team team = b.helpers();
  constexpr int column_parts = tiles_of(B::length, 4),
                tiles =
                    tiles_of(TileCounts<typename B::S>::model, B::holders == 2 && column_parts == 1 ? 2 : 1),
                at_once = tiles < 4 ? tiles : 4;
  const int parts = tiles_of(tiles_of(s.d_model, 8), at_once), units = parts * column_parts;
  for (int unit = team.thread / 32; unit < units; unit += team.threads / 32)
    multiply_columns<at_once>(b.shared + b.at.in_proj, unit % parts * at_once, s.d_model, 2 * s.d_inner,
                              b.shared + chunk.x, unit / parts * 16, b.columns,
                              [&](int i, int column, float sum) { b.row(chunk.projected, i)[column] = sum; });
  meet<Meeting::helpers>(team.threads);
  const TileView d_h = b.tensor(b.problem.d_h, b.stage.sequence, s.d_model, chunk.first_quad);
  layer_norm_backward(b.shared + chunk.projected, b.shared + b.at.normalised, b.shared + b.at.scales,
                      b.shared + b.at.norm_weight, s.d_model, b.columns, team,
                      [&](int i, int column, float d) {
                        if (d_h.has(column / 4))
                          __stcg(d_h.at(column / 4, i) + column % 4, b.row(chunk.d_h, i)[column] + d);
                      });
  meet<Meeting::helpers>(team.threads);
  if (team.thread == 0) publish_to_downstream(b.stage, b.chunks() - chunk.number);
}

/// The gradients of the layer norm.
template <class B>
__device__ void norm_gradients(const B& b, const typename B::Chunk& chunk) {
  const Team team = b.helpers();
  for (int i = team.thread; i < b.s.d_model; i += team.threads) {
    float weight = 0, bias = 0;
#pragma unroll
    for (int q = 0; q < b.columns.quads; ++q) {
      const float4 d = b.quad(chunk.projected, i, q);
      weight += sum(d * b.quad(b.at.normalised, i, q)), bias += sum(d);
    }
    b.shared[b.at.d_norm_weight + i] += weight, b.shared[b.at.d_norm_bias + i] += bias;
  }
  meet<Meeting::helpers>(team.threads);
}

template <class B>
__device__ void write_held(const B& b, const HeldGradients<B>& held) {
  const auto& s = b.s;
  const MambaOffsets& of = b.problem.offsets;
  const bool first = b.first_helper();
  const auto out_proj = [&](int channel, int o, float sum) {
    b.partial[of.out_proj + o * s.d_inner + channel] = sum;
  };
  const auto x_proj = [&](int channel, int o, float sum) {
    if (const int r = projected_row(b.problem.sizes, o); r >= 0)
      b.partial[of.x_proj + r * s.d_inner + channel] = sum;
  };
  const auto in_proj = [&](int o, int i, float sum) {
    b.partial[of.in_proj + ((first ? 0 : s.d_inner) + o) * s.d_model + i] = sum;
  };
#pragma unroll
  for (int slab = 0; slab < held.slabs; ++slab)
#pragma unroll
    for (int j = 0; j < held.tiles; ++j) {
      const TileC &one = held.first[slab][j], &other = held.second[slab][j];
      if (B::holders == 1 || first)
        for_each_sum(one, slab, s.d_inner, j, s.d_model, out_proj);
      else
        for_each_sum(one, slab, s.d_inner, j, s.projected(), x_proj);
      if constexpr (B::holders == 1)
        for_each_sum(other, slab, s.d_inner, j, s.projected(), x_proj);
      else
        for_each_sum(other, slab, s.d_inner, j, s.d_model, in_proj);
    }
}

template <class B>
__device__ void walk_helper(const B& b) {
  const Team team = b.helpers();
  const int chunks = b.chunks();
  int seen = 0;
  HeldGradients<B> held;
  const auto finish = [&](int c) {
    const typename B::Chunk chunk = b.chunk(c);
    input_backward(b, chunk);
    if constexpr (B::holders == 2) in_proj_gradient(b, chunk, held);
    norm_gradients(b, chunk);
  };
  fetch_tape(b, chunks - 1);
  fetch_gradient(b, chunks - 1, seen);
  wait_for_copies();
  if constexpr (B::holders == 2) {
    meet<Meeting::helpers>(team.threads);
    recompute_chunk(b, b.chunk(chunks - 1));
  }
  b.meet_all();
  for (int c = chunks; c-- > 0;) {
    const typename B::Chunk chunk = b.chunk(c);
    if (b.overlap && c + 1 < chunks) finish(c + 1);
    fetch_h(b, chunk);
    if (b.overlap && c > 0) fetch_tape(b, c - 1);
    wait_for_copies();
    meet<Meeting::helpers>(team.threads);
    normalise(b.shared + b.at.scales, b.shared + b.at.normalised, b.s.d_model, b.columns, team,
              [&](int i, int column, float n) { b.row(b.at.normalised, i)[column] = n; });
    if constexpr (B::holders == 2)
      if (c > 0) recompute_chunk(b, b.chunk(c - 1));
    b.meet_all();
    step_backward(b, chunk);
    b.meet_all();
    if (b.overlap && c > 0) fetch_gradient(b, c - 1, seen);
    slab_gradients(b, chunk, held);
    wait_for_copies();
    b.meet_all();
    if (b.overlap) continue;
    finish(c);
    if (c > 0) fetch_tape(b, c - 1), fetch_gradient(b, c - 1, seen);
    wait_for_copies();
    b.meet_all();
  }
  if (b.overlap) finish(0);
  if constexpr (B::holders > 0) write_held(b, held);
}

}  // namespace mac::cuda::backward
