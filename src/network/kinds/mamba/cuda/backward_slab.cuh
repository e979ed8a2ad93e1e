// What the warps with a slab of 16 channels do in the Mamba's backward pass: everything from the gated output
// back to x and z.
#pragma once

#include "network/kinds/mamba/cuda/backward_block.cuh"
#include "network/kinds/mamba/cuda/scan_backward.cuh"

namespace mac::cuda::backward {

/// What a thread sums up for its channel.
template <class Sizes>
struct ChannelThread : SlabThread {
  static constexpr int ranks = Sizes::fixed ? Sizes(MambaSizes{}).rank : most_ranks;
  float d_D = 0, d_step_bias = 0, d_step_weight[ranks] = {}, d_conv_weight[4] = {}, d_conv_bias = 0;

  using SlabThread::SlabThread;
};

/// Takes d_h through out_proj and the gate, as far as it goes without the scan.
template <class B>
__device__ void before_scan(const B& b, const typename B::Chunk& chunk, ChannelThread<typename B::S>& own) {
  const auto& s = b.s;
  multiply_tiles<TileC, 1, B::length / 2>(
      b.shared + b.at.out_proj, b.warp(), 1, s.d_inner, s.d_model, b.shared + chunk.d_h, 0, b.columns,
      [&](int channel, int first, int c, float2 sums) { b.pair(b.at.d_v, channel, first + c) = sums; });
  __syncwarp();
  own.for_each_quad(b.length, [&](int q) {
    if constexpr (B::holders < 2) recompute(b, chunk, own.channel, q);
    const float4 z = b.quad(chunk.z, own.channel, q), sigmoids = map4(z, sigmoid), gate = z * sigmoids;
    const float4 slope{silu_slope(z.x, sigmoids.x), silu_slope(z.y, sigmoids.y), silu_slope(z.z, sigmoids.z),
                       silu_slope(z.w, sigmoids.w)};
    float4& d = b.quad(b.at.d_v, own.channel, q);
    b.quad(chunk.z, own.channel, q) = gate;
    b.quad(b.at.gated, own.channel, q) = d * slope;
    d = d * gate;
    own.d_D += sum(d * b.quad(chunk.v, own.channel, q));
  });
  __syncwarp();
}

/// The gradient after the sequence that ends with a quad of the run, and that before the one that begins with
/// it.
template <class B, int S>
__device__ void start_carry(const B& b, int quad, ScanCarry<S>& carry, const ScanThread& thread) {
  const float* const d_final = b.problem.d_final_state;
  carry.start(d_final ? b.state(d_final, quad).states : nullptr, b.problem.sizes, thread);
}
template <class B, int S>
__device__ void write_initial_states(const B& b, int quad, const ScanCarry<S>& carry,
                                     const ScanThread& thread) {
  if (!b.problem.d_initial_state || !thread.exists) return;
  float* const to = b.state(b.problem.d_initial_state, quad).states;
  for_each_state<S>(b.problem.sizes, thread, [&](int l, int i, int channel, int n) {
    to[n * b.s.d_inner + channel] = carry.d_state[l][i];
  });
}

/// `states` are those before the chunk's last quad, then before the last quad of the chunk before it;
/// `checkpoint` is where they lie.
template <class B, int S>
__device__ void scan_backward(const B& b, const typename B::Chunk& chunk, float2 (&states)[S],
                              const float*& checkpoint, ScanCarry<S>& carry, const ScanThread& thread) {
  constexpr int floats_of_sums = 32 * S;
  const int first = chunk.first_quad, last = chunk.quads - 1;
  const auto at = [&](int rows, int row) { return b.row(rows, row) + 4 * last; };
  ScanPlace place{{at(chunk.v, thread.row(0)), at(chunk.v, thread.row(1))},
                  {at(b.at.d_v, thread.row(0)), at(b.at.d_v, thread.row(1))},
                  at(chunk.z, thread.row(0)),
                  at(chunk.projected, b.s.rank + thread.group * S),
                  b.shared + b.at.scan_sums + (thread.slab * B::length + last) * floats_of_sums +
                      place_of_sums<S>(thread),
                  chunk.delta - chunk.v,
                  b.at.gated - b.at.d_v};
  const float D = b.shared[b.at.D + thread.channel];
  int quad = first + last;
  const auto walk_back_to = [&](int start) {
#pragma unroll 1
    for (; quad >= start; --quad) {
      checkpoint -= b.s.checkpoint_size();
      scan_quad_backward(place, b.columns, states, checkpoint, quad > 0, carry, D, thread);
      place.step_back(floats_of_sums);
    }
  };
  if constexpr (B::run == Run::one) {
    walk_back_to(first);
  } else {
#pragma unroll 1
    while (quad >= first) {  // a piece of a sequence at a time
      const int start = first + chunk.start_of_piece(quad - first);
      if (chunk.begins(quad - first + 1)) start_carry(b, quad, carry, thread);
      walk_back_to(start);
      if (chunk.begins(start - first)) write_initial_states(b, start, carry, thread);
    }
  }
  __syncwarp();
}

/// Δ's gradient becomes that of dt_proj's output.
template <class B>
__device__ void after_scan(const B& b, const typename B::Chunk& chunk, ChannelThread<typename B::S>& own) {
  own.for_each_quad(b.length, [&](int q) {
    float4& d = b.quad(chunk.delta, own.channel, q);
    d = keep_first(d * map4(step_before_softplus(b, chunk, own.channel, q), sigmoid), chunk.steps(q));
    own.d_step_bias += sum(d);
#pragma unroll
    for (int r = 0; r < own.ranks; ++r)
      if (r < b.s.rank) own.d_step_weight[r] += sum(d * b.quad(chunk.projected, r, q));
  });
}

/// The gradients of B and C take their places.
template <class B>
__device__ void sum_slabs(const B& b, const typename B::Chunk& chunk) {
  const int items = 2 * b.s.padded_state() * b.columns.quads;
  for (int i = threadIdx.x; i < items; i += 32 * b.s.slabs()) {
    const int r = i / b.columns.quads, q = i % b.columns.quads;
    b.quad(chunk.projected, b.s.rank + r, q) = scan_sums(b.shared + b.at.scan_sums, b.s, b.columns, r, q);
  }
}

/// The gradient of the three x before the sequence that begins at a quad of the run, number q of its chunk.
template <class B>
__device__ void write_initial_window(const B& b, int quad, int q, const SlabThread& own) {
  const MambaBackward& p = b.problem;
  const float* const weight = b.shared + b.at.conv_weight + 4 * own.channel;
  for (int k = 0; k < 3; ++k) {
    float d = 0;
    for (int j = 0; j <= k; ++j)  // x_{k−3} acts on c_{k−j} through weight j
      d = fmaf(weight[j], b.row(b.at.d_v, own.channel)[4 * q + k - j], d);
    if (const int steps = b.stage.steps; p.d_final_state && k >= steps)
      d += b.state(p.d_final_state, quad).window[(k - steps) * b.s.d_inner + own.channel];
    b.state(p.d_initial_state, quad).window[k * b.s.d_inner + own.channel] = d;
  }
}

/// Through x_proj, SiLU and the convolution: dx_t = Σ_k weight_k dc_{t+3−k}, in place of x; a gradient of the
/// final state adds to the last three.
template <class B>
__device__ void convolution_backward(const B& b, const typename B::Chunk& chunk,
                                     ChannelThread<typename B::S>& own) {
  const auto& s = b.s;
  multiply_tiles<TileC, 1, B::length / 2>(b.shared + b.at.x_proj, b.warp(), 1, s.d_inner, s.projected(),
                                          b.shared + chunk.projected, 0, b.columns,
                                          [&](int channel, int column, int c, float2 sums) {
                                            float2& d = b.pair(b.at.d_v, channel, column + c);
                                            d = {d.x + sums.x, d.y + sums.y};
                                          });
  __syncwarp();
  own.for_each_quad(b.length, [&](int q) {
    const auto [before, x, c] = Convolution(b, chunk, own.channel, q);
    float4& d = b.quad(b.at.d_v, own.channel, q);
    d = d * map4(c, [](float a) { return silu_slope(a, sigmoid(a)); });
    own.d_conv_weight[0] += sum(d * make_float4(before.y, before.z, before.w, x.x));
    own.d_conv_weight[1] += sum(d * make_float4(before.z, before.w, x.x, x.y));
    own.d_conv_weight[2] += sum(d * make_float4(before.w, x.x, x.y, x.z));
    own.d_conv_weight[3] += sum(d * x);
    own.d_conv_bias += sum(d);
  });
  __syncwarp();
  const float4 w = quad_at(b.shared + b.at.conv_weight + 4 * own.channel);
  own.for_each_quad(b.length, [&](int q) {
    const float4 d = b.quad(b.at.d_v, own.channel, q);
    const float4 after = chunk.begins(q + 1) ? splat(0)
                         : q == b.length - 1 ? quad_at(b.shared + b.at.d_window + 4 * own.channel)
                                             : b.quad(b.at.d_v, own.channel, q + 1);
    float steps[4];
    unpack(steps, convolve(w, 0, make_float4(0, after.z, after.y, after.x),
                           make_float4(d.w, d.z, d.y, d.x)));  // time runs the other way
    if (b.problem.d_final_state && q < chunk.quads) {
      const int quad = chunk.first_quad + q,
                after_window = 4 * quad_of_sequence<B::run>(b.problem, quad) - (b.stage.steps - 3);
      const float* const d_final = b.state(b.problem.d_final_state, quad).window + own.channel;
      for (int j = 0; j < 4; ++j)
        if (const int k = after_window + j; k >= 0 && k < 3) steps[3 - j] += d_final[k * s.d_inner];
    }
    b.quad(chunk.x, own.channel, q) = {steps[3], steps[2], steps[1], steps[0]};
  });
  if (b.problem.d_initial_state)
    own.for_each_quad(b.length, [&](int q) {
      if (chunk.begins(q)) write_initial_window(b, chunk.first_quad + q, q, own);
    });
  __syncwarp();
  if (own.exists && own.half == 0)
    quad_at(b.shared + b.at.d_window + 4 * own.channel) = b.quad(b.at.d_v, own.channel, 0);
}

/// The gradient of in_proj for the slab's x and z, unless two helpers hold it.
template <class B>
__device__ void in_proj_gradient(const B& b, const typename B::Chunk& chunk) {
  float* const sums[2] = {b.gradients + b.gradient_at.in_proj_x, b.gradients + b.gradient_at.in_proj_z};
  const float* const rows[2] = {b.shared + chunk.x, b.shared + chunk.z};
  add_outer_products(sums, rows, b.warp(), b.s.d_inner, b.s.d_model, b.columns,
                     [&](int n, int column) { return b.u(n, column); });
}

/// What the threads kept to themselves.
template <class B, class Carry>
__device__ void write_channels(const B& b, const ChannelThread<typename B::S>& own, const Carry& carry,
                               const ScanThread& thread) {
  const MambaOffsets& of = b.problem.offsets;
  const auto put = [&](int offset, float half) {
    const float total = half + __shfl_xor_sync(0xffffffffu, half, 16);
    if (own.exists && own.half == 0) b.partial[offset] = total;
  };
  put(of.D + own.channel, own.d_D);
  put(of.step_bias + own.channel, own.d_step_bias), put(of.conv_bias + own.channel, own.d_conv_bias);
#pragma unroll
  for (int r = 0; r < own.ranks; ++r)
    if (r < b.s.rank) put(of.step_weight + own.channel * b.s.rank + r, own.d_step_weight[r]);
#pragma unroll
  for (int k = 0; k < 4; ++k) put(of.conv_weight + 4 * own.channel + k, own.d_conv_weight[k]);
  if (!thread.exists) return;
  for_each_state<B::S::states_per_thread>(b.problem.sizes, thread, [&](int l, int i, int channel, int n) {
    b.partial[of.A_log + channel * b.s.d_state + n] = ln_2 * carry.A[l][i] * carry.d_A[l][i];
  });
}

template <class B>
__device__ void walk_slab(const B& b) {
  const MambaBackward& p = b.problem;
  const ScanThread thread(b.warp(), lane_of_warp(), b.s.d_inner);
  ChannelThread<typename B::S> own(b.warp(), b.s.d_inner);
  ScanCarry<B::S::states_per_thread> carry(b.parameters() + p.offsets.A_log, p.sizes, thread);
  constexpr int states_per_thread = B::S::states_per_thread;
  const float* checkpoint = b.checkpoint(b.stage.quads - 1) + b.warp() * 64 * states_per_thread;
  float2 states[states_per_thread];
#pragma unroll
  for (int i = 0; i < states_per_thread; ++i) states[i] = load_checkpoint(checkpoint, i);
  start_carry(b, b.stage.quads - 1, carry, thread);
  b.meet_all();  // the first chunk is there
  for (int c = b.chunks(); c-- > 0;) {
    const typename B::Chunk chunk = b.chunk(c);
    before_scan(b, chunk, own);
    scan_backward(b, chunk, states, checkpoint, carry, thread);
    after_scan(b, chunk, own);
    b.meet_all();
    sum_slabs(b, chunk);
    b.meet_all();
    convolution_backward(b, chunk, own);
    if constexpr (B::holders < 2) in_proj_gradient(b, chunk);
    b.meet_all();
    if (!b.overlap) b.meet_all();  // the next chunk is there
  }
  write_initial_states(b, 0, carry, thread);
  if (p.d_initial_state && own.exists && own.half == 0) write_initial_window(b, 0, 0, own);
  write_channels(b, own, carry, thread);
}

}  // namespace mac::cuda::backward
