// Backward pass of the Mamba layers. One block is one stage of the pipeline (pipeline.cuh), which here runs
// from the last layer to the first and from the last chunk of time to the first, with one sequence. The tape
// holds x, z, x_proj's output and the states before each quad of steps; everything else is recomputed.
//
// A warp owns a slab of 16 channels: what concerns single channels (convolution, Δ, scan, gate) stays within
// it, and the block meets only where channels mix. The warps beyond the slabs do the layer norm meanwhile.
// Each block sums the parameter gradients of its own sequence in a fixed order; reduce_partials adds up the
// blocks.
#include "network/cuda/mamba_scan_backward.cuh"
#include "network/cuda/pipeline.cuh"
#include "network/cuda/tensor_cores.cuh"

namespace mac::cuda {

namespace {

constexpr int most_ranks = 6;  // of networks whose weights fit shared memory
constexpr int ticket = 4;      // floats that the kernel takes beside its Layout

/// Places of the weight gradients that are summed in tiles, in floats.
struct GradientLayout {
  int out_proj, x_proj, in_proj;  // (d_inner, d_model), (d_inner, projected), (2 d_inner, d_model)
  int total;

  template <class Sizes>
  __host__ __device__ explicit GradientLayout(const Sizes& s) {
    SharedLayout memory;
    out_proj = memory.take(gradient_floats(s.d_inner, s.d_model));
    x_proj = memory.take(gradient_floats(s.d_inner, s.projected()));
    in_proj = memory.take(gradient_floats(2 * s.d_inner, s.d_model));
    total = memory.used;
  }
};

/// Places in shared memory, in floats.
struct Layout {
  int out_proj, x_proj, in_proj;  // transposed, in tiles
  int norm_weight, norm_bias, conv_weight, conv_bias, step_weight, step_bias, D;
  int window, d_window;  // (d_inner, 4): x before the chunk, dc after it
  int scales;            // (columns): of the layer norm
  int d_h, normalised, x, z, v, projected, d_v, gated, delta;  // rows
  int scan_sums;
  int d_norm_weight, d_norm_bias;
  int gradients;  // see GradientLayout, if they are summed here
  int total;

  template <class Sizes, class Columns>
  __host__ __device__ Layout(const Sizes& s, Columns columns, bool shared_gradients) {
    SharedLayout shared;
    out_proj = shared.take(tile_floats(s.d_inner, s.d_model));
    x_proj = shared.take(tile_floats(s.d_inner, s.projected()));
    in_proj = shared.take(tile_floats(s.d_model, 2 * s.d_inner));
    norm_weight = shared.take(s.d_model), norm_bias = shared.take(s.d_model);
    conv_weight = shared.take(4 * s.d_inner), conv_bias = shared.take(s.d_inner);
    step_weight = shared.take(s.d_inner * s.rank), step_bias = shared.take(s.d_inner);
    D = shared.take(s.d_inner);
    window = shared.take(4 * s.d_inner), d_window = shared.take(4 * s.d_inner);
    scales = shared.take(4 * columns.quads);
    const auto rows = [&](int count) { return shared.take(count * columns.stride); };
    d_h = rows(s.d_model), normalised = rows(s.d_model);
    x = rows(s.d_inner), z = rows(s.d_inner);  // z follows x: in_proj's outputs
    v = rows(s.d_inner), projected = rows(s.projected());
    d_v = rows(s.d_inner), gated = rows(s.d_inner), delta = rows(s.d_inner);
    scan_sums = shared.take(s.slabs() * columns.length * 32 * s.states_per_thread);
    d_norm_weight = shared.take(s.d_model), d_norm_bias = shared.take(s.d_model);
    gradients = shared.take(shared_gradients ? GradientLayout(s).total : 0);
    total = shared.used;
  }
};

struct Chunk {
  int first_quad;
  int steps;  // that exist
  bool first;
};

/// What a block knows about itself.
template <class C, class Sizes>
struct Block {
  static constexpr C columns{};
  static constexpr int length = C::length;
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
  /// The warps without a slab.
  __device__ Team spare() const {
    return {static_cast<int>(threadIdx.x) - 32 * s.slabs(), static_cast<int>(blockDim.x) - 32 * s.slabs()};
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
  __device__ TileView tensor(const float* data, size_t sequence, int rows, int first_quad) const {
    return {const_cast<float*>(data) + (sequence * problem.quads + first_quad) * rows * 4, rows, 0, 1,
            problem.quads - first_quad};
  }
  __device__ TileView tape(int first_quad) const {
    return tensor(problem.tape, sequence_of_layer(), s.tape_rows(), first_quad);
  }
  __device__ const float* checkpoint(int quad) const {
    return problem.checkpoints + (sequence_of_layer() * problem.quads + quad) * s.checkpoint_size() +
           warp() * 64 * Sizes::states_per_thread;
  }
};

/// What a thread sums up for its channel.
template <class Sizes>
struct ChannelThread : SlabThread {
  static constexpr int ranks = Sizes::fixed ? Sizes(MambaSizes{}).rank : most_ranks;
  float d_D = 0, d_step_bias = 0, d_step_weight[ranks] = {}, d_conv_weight[4] = {}, d_conv_bias = 0;

  using SlabThread::SlabThread;
};

template <class B>
__device__ void load_parameters(const B& b) {
  const auto& s = b.s;
  const MambaOffsets& from = b.problem.offsets;
  const float* const w = b.parameters();
  const auto copy = [&](int to, int offset, int count) {
    load_padded(b.shared + to, count, w + offset, 1, count);
  };
  load_tiles(b.shared + b.at.out_proj, s.d_inner, s.d_model,
             [&](int channel, int o) { return w[from.out_proj + o * s.d_inner + channel]; });
  load_tiles(b.shared + b.at.x_proj, s.d_inner, s.projected(), [&](int channel, int o) {
    const int r = projected_row(b.problem.sizes, o);
    return r < 0 ? 0.0f : w[from.x_proj + r * s.d_inner + channel];
  });
  load_tiles(b.shared + b.at.in_proj, s.d_model, 2 * s.d_inner,
             [&](int i, int o) { return w[from.in_proj + o * s.d_model + i]; });
  copy(b.at.norm_weight, from.norm_weight, s.d_model), copy(b.at.norm_bias, from.norm_bias, s.d_model);
  copy(b.at.conv_weight, from.conv_weight, 4 * s.d_inner), copy(b.at.conv_bias, from.conv_bias, s.d_inner);
  copy(b.at.step_weight, from.step_weight, s.d_inner * s.rank),
      copy(b.at.step_bias, from.step_bias, s.d_inner);
  copy(b.at.D, from.D, s.d_inner);
  fill(b.shared + b.at.d_window, 4 * s.d_inner, 0);
  fill(b.shared + b.at.d_norm_weight, s.d_model, 0), fill(b.shared + b.at.d_norm_bias, s.d_model, 0);
  fill(b.gradients, b.gradient_at.total, 0);
}

/// Asks for what the next chunk needs to be in the L2 cache when its turn comes.
template <class B>
__device__ void prefetch_chunk(const B& b, const Chunk& chunk) {
  if (chunk.first) return;
  const int before = chunk.first_quad - b.length;
  const auto prefetch = [&](const float* from, int floats) {
    for (int line = threadIdx.x; line < floats / 32 + 1; line += blockDim.x)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(from + 32 * line));
  };
  prefetch(b.tape(before).data, b.length * b.s.tape_rows() * 4);
  prefetch(b.problem.checkpoints + (b.sequence_of_layer() * b.problem.quads + before) * b.s.checkpoint_size(),
           b.length * b.s.checkpoint_size());
}

/// Waits for d_h and brings in everything the chunk needs from device memory.
template <class B>
__device__ void load_chunk(const B& b, const Chunk& chunk, int published) {
  const auto& s = b.s;
  const MambaProblem& p = b.problem;
  const TileView tape = b.tape(chunk.first_quad);
  load_rows(b.shared + b.at.x, tape, 2 * s.d_inner, b.columns);
  load_rows(b.shared + b.at.projected, tape.skip_rows(2 * s.d_inner), s.projected(), b.columns);
  load_rows(b.shared + b.at.normalised,
            b.tensor(p.h + b.stage.layer * p.h_layer_stride, b.sequence, s.d_model, chunk.first_quad),
            s.d_model, b.columns);
  for (int channel = threadIdx.x; channel < s.d_inner; channel += blockDim.x) {
    float* const window = b.shared + b.at.window + 4 * channel;
    if (!chunk.first) {
      copy_quad(window, tape.at(0, -1, channel));
    } else {
      const float* const before = p.initial_state ? b.state(p.initial_state).window + channel : nullptr;
      for (int k = 0; k < 4; ++k) window[k] = before && k > 0 ? before[(k - 1) * s.d_inner] : 0;
    }
  }
  prefetch_chunk(b, chunk);
  wait_for_chunk(b.stage, published);
  load_rows(b.shared + b.at.d_h, b.tensor(b.problem.d_h, b.sequence, s.d_model, chunk.first_quad), s.d_model,
            b.columns);
  wait_for_copies();
  __syncthreads();
}

/// dt_proj's output, before softplus.
template <class B>
__device__ float4 step_before_softplus(const B& b, int channel, int q) {
  float4 step = splat(b.shared[b.at.step_bias + channel]);
  for (int r = 0; r < b.s.rank; ++r)
    step = fma4(b.shared[b.at.step_weight + channel * b.s.rank + r], b.quad(b.at.projected, r, q), step);
  return step;
}

template <class B>
__device__ float4 quad_before(const B& b, int channel, int q) {
  return q == 0 ? quad_at(b.shared + b.at.window + 4 * channel) : b.quad(b.at.x, channel, q - 1);
}

template <class B>
__device__ float4 convolution(const B& b, int channel, int q) {
  return convolve(quad_at(b.shared + b.at.conv_weight + 4 * channel), b.shared[b.at.conv_bias + channel],
                  quad_before(b, channel, q), b.quad(b.at.x, channel, q));
}

/// Takes d_h through out_proj and the gate, as far as it goes without the scan, and recomputes v and Δ.
template <class B>
__device__ void before_scan(const B& b, const Chunk& chunk, ChannelThread<typename B::S>& own) {
  const auto& s = b.s;
  multiply_tiles<TileC, 1, B::length / 2>(
      b.shared + b.at.out_proj, b.warp(), 1, s.d_inner, s.d_model, b.shared + b.at.d_h, 0, b.columns,
      [&](int channel, int column, float2 sums) { b.pair(b.at.d_v, channel, column) = sums; });
  __syncwarp();
  own.for_each_quad(b.length, [&](int q) {
    const float4 v = map4(convolution(b, own.channel, q), silu);
    b.quad(b.at.v, own.channel, q) = v;
    b.quad(b.at.delta, own.channel, q) =
        keep_first(map4(step_before_softplus(b, own.channel, q), softplus), chunk.steps - 4 * q);
    const float4 z = b.quad(b.at.z, own.channel, q), sigmoids = map4(z, sigmoid), gate = z * sigmoids;
    const float4 slope{silu_slope(z.x, sigmoids.x), silu_slope(z.y, sigmoids.y), silu_slope(z.z, sigmoids.z),
                       silu_slope(z.w, sigmoids.w)};
    float4& d = b.quad(b.at.d_v, own.channel, q);
    b.quad(b.at.z, own.channel, q) = gate;
    b.quad(b.at.gated, own.channel, q) = d * slope;
    d = d * gate;
    own.d_D += sum(d * v);
  });
  __syncwarp();
}

/// Δ's gradient becomes that of dt_proj's output.
template <class B>
__device__ void after_scan(const B& b, const Chunk& chunk, ChannelThread<typename B::S>& own) {
  __syncwarp();
  own.for_each_quad(b.length, [&](int q) {
    float4& d = b.quad(b.at.delta, own.channel, q);
    d = keep_first(d * map4(step_before_softplus(b, own.channel, q), sigmoid), chunk.steps - 4 * q);
    own.d_step_bias += sum(d);
#pragma unroll
    for (int r = 0; r < own.ranks; ++r)
      if (r < b.s.rank) own.d_step_weight[r] += sum(d * b.quad(b.at.projected, r, q));
  });
}

template <class B, class Carry>
__device__ void scan_backward(const B& b, const Chunk& chunk, Carry& carry, const ScanThread& thread) {
  constexpr int S = B::S::states_per_thread;
  const ScanRows<S, decltype(B::columns)> rows(
      {b.shared + b.at.v, b.shared + b.at.projected, b.shared + b.at.delta, b.shared + b.at.d_v,
       b.shared + b.at.z, b.shared + b.at.gated, b.shared + b.at.scan_sums},
      b.s.rank, thread);
  const float D = b.shared[b.at.D + thread.channel];
  const auto load = [&](float2(&state)[S], int q) {
    if (4 * q < chunk.steps) return load_checkpoint(state, b.checkpoint(chunk.first_quad + q));
#pragma unroll
    for (float2& pair : state) pair = {0, 0};
  };
  float2 state[S], next[S];
  load(next, b.length - 1);
  for (int q = b.length; q-- > 0;) {
#pragma unroll
    for (int i = 0; i < S; ++i) state[i] = next[i];
    if (q > 0) load(next, q - 1);
    scan_quad_backward(rows, q, state, carry, D, thread);
  }
}

/// The gradient of x_proj's output takes its place.
template <class B>
__device__ void projected_backward(const B& b) {
  const auto& s = b.s;
  for_each_quad(2 * s.padded_state(), b.columns, [&](int r, int q) {
    b.quad(b.at.projected, s.rank + r, q) = scan_sums(b.shared + b.at.scan_sums, s, b.columns, r, q);
  });
  const Team team = b.spare();
  if (team.thread < 0) return;
  const int items = s.rank * b.columns.quads, part = team.thread % 8;  // eight threads a sum over the channels
  for (int item = team.thread / 8; item < round_up(items, 4); item += team.threads / 8) {
    const int existing = min(item, items - 1), r = existing / b.columns.quads, q = existing % b.columns.quads;
    float4 total = splat(0);
    for (int channel = part; channel < s.d_inner; channel += 8)
      total = fma4(b.shared[b.at.step_weight + channel * s.rank + r], b.quad(b.at.delta, channel, q), total);
#pragma unroll
    for (int distance = 1; distance < 8; distance *= 2)
      total = total + map4(total, [&](float a) { return __shfl_xor_sync(0xffffffffu, a, distance); });
    if (item < items && part == 0) b.quad(b.at.projected, r, q) = total;
  }
}

/// Through x_proj, SiLU and the convolution: dx_t = Σ_k weight_k dc_{t+3−k}, in place of x; a gradient of the
/// final state adds to the last three.
template <class B>
__device__ void convolution_backward(const B& b, const Chunk& chunk, ChannelThread<typename B::S>& own) {
  const auto& s = b.s;
  multiply_tiles<TileC, 1, B::length / 2>(b.shared + b.at.x_proj, b.warp(), 1, s.d_inner, s.projected(),
                                          b.shared + b.at.projected, 0, b.columns,
                                          [&](int channel, int column, float2 sums) {
                                            float2& d = b.pair(b.at.d_v, channel, column);
                                            d = {d.x + sums.x, d.y + sums.y};
                                          });
  __syncwarp();
  own.for_each_quad(b.length, [&](int q) {
    const float4 before = quad_before(b, own.channel, q), x = b.quad(b.at.x, own.channel, q);
    const float4 d = b.quad(b.at.d_v, own.channel, q) *
                     map4(convolution(b, own.channel, q), [](float c) { return silu_slope(c, sigmoid(c)); });
    b.quad(b.at.d_v, own.channel, q) = d;
    own.d_conv_weight[0] += sum(d * make_float4(before.y, before.z, before.w, x.x));
    own.d_conv_weight[1] += sum(d * make_float4(before.z, before.w, x.x, x.y));
    own.d_conv_weight[2] += sum(d * make_float4(before.w, x.x, x.y, x.z));
    own.d_conv_weight[3] += sum(d * x);
    own.d_conv_bias += sum(d);
  });
  __syncwarp();
  const float* const d_final =
      b.problem.d_final_state ? b.state(b.problem.d_final_state).window + own.channel : nullptr;
  const float4 w = quad_at(b.shared + b.at.conv_weight + 4 * own.channel);
  own.for_each_quad(b.length, [&](int q) {
    const float4 d = b.quad(b.at.d_v, own.channel, q);
    const float4 after = q == b.length - 1 ? quad_at(b.shared + b.at.d_window + 4 * own.channel)
                                           : b.quad(b.at.d_v, own.channel, q + 1);
    float steps[4];
    unpack(steps, convolve(w, 0, make_float4(0, after.z, after.y, after.x),
                           make_float4(d.w, d.z, d.y, d.x)));  // time runs the other way
    const int after_window = 4 * (chunk.first_quad + q) - (b.problem.time - 3);
    if (after_window > -4 && d_final)
      for (int j = 0; j < 4; ++j)
        if (const int k = after_window + j; k >= 0 && k < 3) steps[3 - j] += d_final[k * s.d_inner];
    b.quad(b.at.x, own.channel, q) = {steps[3], steps[2], steps[1], steps[0]};
  });
  __syncwarp();
  if (own.exists && own.half == 0)
    quad_at(b.shared + b.at.d_window + 4 * own.channel) = b.quad(b.at.d_v, own.channel, 0);
}

/// The gradient of the three x before the sequence.
template <class B>
__device__ void write_initial_window(const B& b) {
  const auto& s = b.s;
  for (int i = threadIdx.x; i < 3 * s.d_inner; i += blockDim.x) {
    const int k = i / s.d_inner, channel = i % s.d_inner;
    float d = 0;
    for (int j = 0; j <= k; ++j)  // x_{k−3} acts on c_{k−j} through weight j
      d = fmaf(b.shared[b.at.conv_weight + 4 * channel + j], b.row(b.at.d_v, channel)[k - j], d);
    if (b.problem.d_final_state && k >= b.problem.time)
      d += b.state(b.problem.d_final_state).window[(k - b.problem.time) * s.d_inner + channel];
    b.state(b.problem.d_initial_state).window[i] = d;
  }
}

/// Through in_proj.
template <class B>
__device__ void input_backward(const B& b) {
  constexpr int column_tiles = B::length / 2;
  const int units = tiles_of(b.s.d_model, 16) * column_tiles;
  for (int unit = b.warp(); unit < units; unit += blockDim.x / 32)
    multiply_tiles<TileC, 1, 1>(
        b.shared + b.at.in_proj, unit / column_tiles, 1, b.s.d_model, 2 * b.s.d_inner, b.shared + b.at.x,
        unit % column_tiles * 8, b.columns,
        [&](int i, int column, float2 sums) { b.pair(b.at.delta, i, column) = sums; });
}

/// Through the layer norm to the gradient of h.
template <class B>
__device__ void norm_backward(const B& b, const Chunk& chunk) {
  const TileView d_h = b.tensor(b.problem.d_h, b.sequence, b.s.d_model, chunk.first_quad);
  layer_norm_backward(b.shared + b.at.delta, b.shared + b.at.normalised, b.shared + b.at.scales,
                      b.shared + b.at.norm_weight, b.s.d_model, b.columns,
                      [&](int i, int column, float d) {
                        if (d_h.has(0, column / 4))
                          __stcg(d_h.at(0, column / 4, i) + column % 4, b.row(b.at.d_h, i)[column] + d);
                      });
}

template <class B>
__device__ void out_proj_gradient(const B& b, int tile) {
  add_outer_product(b.gradients + b.gradient_at.out_proj, b.shared + b.at.gated, tile, b.s.d_inner,
                    b.s.d_model, b.columns, [&](int n, int column) { return b.row(b.at.d_h, n)[column]; });
}

/// The gradients of x_proj, in_proj and the layer norm.
template <class B>
__device__ void dense_gradients(const B& b) {
  const auto& s = b.s;
  const int units = s.slabs() + tiles_of(2 * s.d_inner, 16);
  for (int unit = b.warp(); unit < units; unit += blockDim.x / 32)
    if (unit < s.slabs())
      add_outer_product(b.gradients + b.gradient_at.x_proj, b.shared + b.at.v, unit, s.d_inner, s.projected(),
                        b.columns, [&](int n, int column) { return b.row(b.at.projected, n)[column]; });
    else
      add_outer_product(b.gradients + b.gradient_at.in_proj, b.shared + b.at.x, unit - s.slabs(),
                        2 * s.d_inner, s.d_model, b.columns, [&](int n, int column) {
                          return fmaf(b.shared[b.at.norm_weight + n], b.row(b.at.normalised, n)[column],
                                      b.shared[b.at.norm_bias + n]);
                        });
  const Team team = b.spare();
  if (team.thread < 0) return;
  for (int i = team.thread; i < s.d_model; i += team.threads) {
    float weight = 0, bias = 0;
    for (int q = 0; q < b.columns.quads; ++q) {
      weight += sum(b.quad(b.at.delta, i, q) * b.quad(b.at.normalised, i, q));
      bias += sum(b.quad(b.at.delta, i, q));
    }
    b.shared[b.at.d_norm_weight + i] += weight, b.shared[b.at.d_norm_bias + i] += bias;
  }
}

/// What was summed in tiles, and the layer norm's.
template <class B>
__device__ void write_gradients(const B& b) {
  const auto& s = b.s;
  const MambaOffsets& of = b.problem.offsets;
  for_each_sum(b.gradients + b.gradient_at.out_proj, s.d_inner, s.d_model, [&](int channel, int o, float sum) {
    b.partial[of.out_proj + o * s.d_inner + channel] = sum;
  });
  for_each_sum(b.gradients + b.gradient_at.x_proj, s.d_inner, s.projected(),
               [&](int channel, int o, float sum) {
                 const int r = projected_row(b.problem.sizes, o);
                 if (r >= 0) b.partial[of.x_proj + r * s.d_inner + channel] = sum;
               });
  for_each_sum(b.gradients + b.gradient_at.in_proj, 2 * s.d_inner, s.d_model,
               [&](int o, int i, float sum) { b.partial[of.in_proj + o * s.d_model + i] = sum; });
  for (int i = threadIdx.x; i < s.d_model; i += blockDim.x) {
    b.partial[of.norm_weight + i] = b.shared[b.at.d_norm_weight + i];
    b.partial[of.norm_bias + i] = b.shared[b.at.d_norm_bias + i];
  }
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
  float* const d_initial = b.problem.d_initial_state ? b.state(b.problem.d_initial_state).states : nullptr;
  for_each_state<B::S::states_per_thread>(b.problem.sizes, thread, [&](int l, int i, int channel, int n) {
    b.partial[of.A_log + channel * b.s.d_state + n] = ln_2 * carry.A[l][i] * carry.d_A[l][i];
    if (d_initial) d_initial[n * b.s.d_inner + channel] = carry.d_state[l][i];
  });
}

template <class Sizes, class C, int THREADS, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    mamba_backward_kernel(const MambaBackward problem, bool shared_gradients) {
  extern __shared__ float4 shared_quads[];
  __shared__ int shared_ticket;
  constexpr C columns;
  constexpr int length = columns.length;
  const Stage stage = take_stage({problem.counters, problem.counters + 1}, problem.batch, problem.layers,
                                 Direction::backward, &shared_ticket);
  const Sizes sizes(problem.sizes);
  Block<C, Sizes> b{problem,
                    sizes,
                    Layout(sizes, columns, shared_gradients),
                    GradientLayout(sizes),
                    reinterpret_cast<float*>(shared_quads),
                    stage,
                    stage.model * problem.batch + stage.group,
                    nullptr,
                    nullptr};
  const size_t place = static_cast<size_t>(b.sequence) * problem.layers + stage.layer;
  b.partial = problem.partials + place * problem.offsets.size;
  b.gradients = shared_gradients ? b.shared + b.at.gradients : problem.gradients + place * b.gradient_at.total;
  const bool has_slab = b.warp() < b.s.slabs();
  const ScanThread thread(b.warp(), b.s.d_inner);
  ChannelThread<Sizes> own(b.warp(), b.s.d_inner);
  ScanCarry<Sizes::states_per_thread> carry(
      b.parameters() + problem.offsets.A_log,
      problem.d_final_state ? b.state(problem.d_final_state).states : nullptr, problem.sizes, thread);
  load_parameters(b);
  __syncthreads();

  const int chunks = (problem.quads + length - 1) / length;
  for (int c = chunks; c-- > 0;) {
    const Chunk chunk{c * length, min(4 * length, problem.time - 4 * c * length), c == 0};
    load_chunk(b, chunk, chunks - 1 - c);
    if (has_slab) {
      before_scan(b, chunk, own);
      scan_backward(b, chunk, carry, thread);
      after_scan(b, chunk, own);
    } else {
      normalise(b.shared + b.at.scales, b.shared + b.at.normalised, b.s.d_model, columns, b.spare(),
                [&](int i, int column, float n) { b.row(b.at.normalised, i)[column] = n; });
    }
    __syncthreads();
    projected_backward(b);
    __syncthreads();
    if (has_slab)
      convolution_backward(b, chunk, own);
    else
      for (int tile = b.warp() - b.s.slabs(); tile < b.s.slabs(); tile += THREADS / 32 - b.s.slabs())
        out_proj_gradient(b, tile);
    __syncthreads();
    input_backward(b);
    if (chunk.first && problem.d_initial_state) write_initial_window(b);
    __syncthreads();
    norm_backward(b, chunk);
    publish_chunks(stage, chunks - c);
    dense_gradients(b);
    __syncthreads();
  }

  if (has_slab) write_channels(b, own, carry, thread);
  write_gradients(b);
}

using BackwardVariant = Variant<void (*)(MambaBackward, bool), MambaSizes>;

template <class Sizes, int LENGTH, int THREADS, int BLOCKS>
constexpr BackwardVariant variant(int d_model = 0, int d_state = 0) {
  using C = Columns<1, LENGTH>;
  static_assert(LENGTH % 2 == 0);
  const auto bytes = [](const MambaSizes& sizes, int sums) {
    return sizeof(float) * static_cast<std::size_t>(Layout(sizes, C{}, sums > 0).total + ticket);
  };
  return {mamba_backward_kernel<Sizes, C, THREADS, BLOCKS>,
          bytes,
          THREADS,
          1,
          LENGTH,
          BLOCKS,
          Sizes::states_per_thread,
          d_model,
          d_state};
}
template <int D_MODEL, int D_STATE, int LENGTH, int THREADS, int BLOCKS>
constexpr BackwardVariant fixed() {
  return variant<FixedMambaSizes<D_MODEL, D_STATE>, LENGTH, THREADS, BLOCKS>(D_MODEL, D_STATE);
}

/// Blocks of a multiprocessor hide each other's latencies. All layers of a batch of 96 run at once on the 132
/// multiprocessors of an H200: three blocks on each for four layers (Burgers) or three (power grid), two for
/// two layers (KdV).
const BackwardVariant variants[] = {fixed<22, 12, 4, 128, 3>(),
                                    fixed<24, 12, 8, 128, 2>(),
                                    fixed<10, 16, 8, 128, 3>(),
                                    fixed<63, 16, 4, 384, 1>(),
                                    variant<AnyMambaSizes<4>, 4, 128, 3>(),
                                    variant<AnyMambaSizes<4>, 4, 384, 1>(),
                                    variant<AnyMambaSizes<4>, 2, 384, 1>()};

}  // namespace

std::optional<LaunchPlan> plan_mamba_backward(const MambaSizes& sizes, const SharedMemory& memory) {
  return choose(std::span<const BackwardVariant>(variants), sizes, GradientLayout(sizes).total, memory,
                [&](const BackwardVariant& v) {
                  return suits(v, sizes) && sizes.slabs() < v.threads / 32 && sizes.rank <= most_ranks;
                });
}

std::size_t mamba_gradient_floats(const MambaSizes& sizes) {
  return static_cast<std::size_t>(GradientLayout(sizes).total);
}

void launch_mamba_backward(const MambaBackward& problem, const LaunchPlan& plan, cudaStream_t stream) {
  const auto kernel = variants[plan.variant].kernel;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(plan.bytes));
  kernel<<<problem.models * plan.groups(problem.batch) * problem.layers, plan.threads, plan.bytes, stream>>>(
      problem, plan.shared_sums);
}

}  // namespace mac::cuda
