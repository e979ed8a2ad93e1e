// Backward pass of the Mamba layers. One block is one stage of the pipeline (pipeline.cuh), which here runs
// from the last layer to the first and from the last chunk of time to the first. The tape holds x, z and
// x_proj's output; everything else is recomputed. Each block sums the parameter gradients of its own
// sequences in a fixed order; reduce_partials adds up the blocks.
#include "network/cuda/mamba_scan_backward.cuh"
#include "network/cuda/pipeline.cuh"
#include "network/cuda/tensor_cores.cuh"

namespace mac::cuda {

namespace {

constexpr int weight_gradients = 6;

/// Places in shared memory, in floats.
struct Layout {
  int inner_ld, model_ld;  // row lengths of x_proj and out_proj, and of in_proj
  int norm_weight, norm_bias, in_proj, conv_weight, conv_bias, x_proj, step_weight, step_bias, A, D, out_proj;
  int start, d_state, d_A, d_D;  // see ScanBackward
  int window, d_window;          // (sequence, d_inner, 4): x before the chunk, dc after it
  int scales;                    // (columns): of the layer norm
  int d_h, normalised, u, x, z, v, projected, d_v, gated, delta, d_projected;  // rows
  int checkpoints;
  int sums;  // parameter gradients, if they are summed here
  int total;

  template <class Sizes, class Columns>
  __host__ __device__ Layout(const Sizes& s, Columns columns, int shared_sums) {
    SharedLayout shared;
    inner_ld = round_up(s.d_inner, 4), model_ld = round_up(s.d_model, 4);
    norm_weight = shared.take(s.d_model), norm_bias = shared.take(s.d_model);
    in_proj = shared.take(2 * s.d_inner * model_ld);
    conv_weight = shared.take(4 * s.d_inner), conv_bias = shared.take(s.d_inner);
    x_proj = shared.take(s.projected() * inner_ld);
    step_weight = shared.take(s.d_inner * s.rank), step_bias = shared.take(s.d_inner);
    A = shared.take(s.state_count()), D = shared.take(s.d_inner);
    out_proj = shared.take(s.d_model * inner_ld);
    const int states = columns.sequences * s.state_count(), channels = columns.sequences * s.d_inner;
    start = shared.take(states), d_state = shared.take(states), d_A = shared.take(states),
    d_D = shared.take(channels);
    window = shared.take(4 * channels), d_window = shared.take(4 * channels);
    scales = shared.take(4 * columns.quads);
    const auto rows = [&](int count) { return shared.take(count * columns.stride); };
    d_h = rows(s.d_model), normalised = rows(s.d_model), u = rows(s.d_model);
    x = rows(s.d_inner), z = rows(s.d_inner), v = rows(s.d_inner);  // z follows x: in_proj's outputs
    projected = rows(s.projected()), d_v = rows(s.d_inner), gated = rows(s.d_inner);
    delta = rows(s.d_inner), d_projected = rows(s.projected());
    checkpoints =
        shared.take(columns.sequences * scan_warps(s.d_inner) * columns.length * 64 * s.states_per_thread);
    sums = shared.take(shared_sums);
    total = shared.used;
  }
};

/// What a block knows about itself.
template <class C, class Sizes>
struct Block {
  static constexpr C columns{};
  using S = Sizes;
  /// Dense layers go to the tensor cores where sizes are compiled in and the columns fill whole tiles.
  static constexpr bool tensor_cores = Sizes::fixed && 4 * C::quads % 8 == 0;
  const MambaBackward& problem;
  const Sizes s;
  const Layout at;
  float* shared;
  Stage stage;
  int first_sequence, existing;  // sequences
  float* sums;                   // parameter gradients (offsets.size), in shared or device memory

  __device__ float* row(int rows, int r) const { return shared + rows + r * columns.stride; }
  __device__ float4& quad(int rows, int r, int q) const {
    return quad_at(shared + rows + r * columns.stride + 4 * q);
  }
  __device__ StateOfLayer state(const float* of, int m) const {
    return StateOfLayer::of(of, first_sequence + m, stage.layer, problem.layers, problem.sizes);
  }
  __device__ size_t all_sequences() const { return static_cast<size_t>(problem.models) * problem.batch; }
  __device__ TileView tensor(const float* data, int rows, int first_quad) const {
    const size_t sequence_stride = static_cast<size_t>(problem.quads) * rows * 4;
    return {const_cast<float*>(data) + first_sequence * sequence_stride +
                static_cast<size_t>(first_quad) * rows * 4,
            rows, sequence_stride, existing, problem.quads - first_quad};
  }
};

struct Chunk {
  int first_quad;
  int steps;  // that exist
  bool first;
};

template <class B>
__device__ void load_parameters(const B& b) {
  const auto& s = b.s;
  const MambaOffsets& from = b.problem.offsets;
  const float* const w = b.problem.parameters + b.stage.model * b.problem.parameter_count +
                         b.problem.first_block + static_cast<size_t>(b.stage.layer) * from.size;
  const auto copy = [&](int to, int offset, int count) {
    load_padded(b.shared + to, count, w + offset, 1, count);
  };
  copy(b.at.norm_weight, from.norm_weight, s.d_model), copy(b.at.norm_bias, from.norm_bias, s.d_model);
  load_padded(b.shared + b.at.in_proj, b.at.model_ld, w + from.in_proj, 2 * s.d_inner, s.d_model);
  copy(b.at.conv_weight, from.conv_weight, 4 * s.d_inner), copy(b.at.conv_bias, from.conv_bias, s.d_inner);
  load_padded(b.shared + b.at.x_proj, b.at.inner_ld, w + from.x_proj, s.projected(), s.d_inner,
              [&](int r) { return projected_row(b.problem.sizes, r); });
  copy(b.at.step_weight, from.step_weight, s.d_inner * s.rank),
      copy(b.at.step_bias, from.step_bias, s.d_inner);
  load_decay(b.shared + b.at.A, w + from.A_log, b.problem.sizes);
  copy(b.at.D, from.D, s.d_inner);
  load_padded(b.shared + b.at.out_proj, b.at.inner_ld, w + from.out_proj, s.d_model, s.d_inner);
}

template <class B>
__device__ void start_sums(const B& b) {
  const int states = b.columns.sequences * b.s.state_count(), channels = b.columns.sequences * b.s.d_inner;
  fill(b.shared + b.at.d_A, states, 0), fill(b.shared + b.at.d_D, channels, 0);
  fill(b.shared + b.at.d_window, 4 * channels, 0);
  // Sequences that don't exist never get another start than zero.
  fill(b.shared + b.at.start, states, 0), fill(b.shared + b.at.window, 4 * channels, 0);
  fill(b.sums, b.problem.offsets.size, 0);
  for (int m = 0; m < b.columns.sequences; ++m)
    import_states(
        b.shared + b.at.d_state + m * b.s.state_count(),
        b.problem.d_final_state && m < b.existing ? b.state(b.problem.d_final_state, m).states : nullptr,
        b.problem.sizes);
}

/// Asks for the tape of the next chunk to be in the L2 cache when its turn comes.
template <class B>
__device__ void prefetch_chunk(const B& b, const Chunk& chunk) {
  if (chunk.first) return;
  const MambaProblem& p = b.problem;
  const int rows = b.s.tape_rows(),
            lines = b.columns.length * rows * 4 / 32 + 1;  // of 128 bytes, of a sequence
  const TileView tape = b.tensor(p.tape + b.stage.layer * b.all_sequences() * p.quads * rows * 4, rows,
                                 chunk.first_quad - b.columns.length);
  for (int i = threadIdx.x; i < b.existing * lines; i += blockDim.x) {
    const int m = i / lines, line = i - m * lines;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(tape.at(m, 0, 0) + 32 * line));
  }
}

/// Waits for d_h and brings in everything the chunk needs from device memory.
template <class B>
__device__ void load_chunk(const B& b, const Chunk& chunk, int published) {
  const auto& s = b.s;
  const MambaProblem& p = b.problem;
  const size_t layer_sequences = b.stage.layer * b.all_sequences();
  const TileView tape =
      b.tensor(p.tape + layer_sequences * p.quads * s.tape_rows() * 4, s.tape_rows(), chunk.first_quad);
  load_rows(b.shared + b.at.x, tape, 2 * s.d_inner, b.columns);
  load_rows(b.shared + b.at.projected, tape.skip_rows(2 * s.d_inner), s.projected(), b.columns);
  load_rows(b.shared + b.at.normalised,
            b.tensor(p.h + b.stage.layer * p.h_layer_stride, s.d_model, chunk.first_quad), s.d_model,
            b.columns);
  for (int i = threadIdx.x; i < b.existing * s.state_count() / 4; i += blockDim.x) {
    const int m = i / (s.state_count() / 4), quad = i - m * (s.state_count() / 4);
    copy_quad(b.shared + b.at.start + 4 * i,
              p.checkpoints +
                  ((layer_sequences + b.first_sequence + m) * p.checkpoint_count() +
                   chunk.first_quad / b.columns.length) *
                      s.state_count() +
                  4 * quad);
  }
  for (int i = threadIdx.x; i < b.existing * s.d_inner; i += blockDim.x) {
    const int m = i / s.d_inner, channel = i - m * s.d_inner;
    float* const window = b.shared + b.at.window + 4 * i;
    if (!chunk.first) {
      copy_quad(window, tape.at(m, -1, channel));
    } else {
      const float* const before = p.initial_state ? b.state(p.initial_state, m).window + channel : nullptr;
      for (int k = 0; k < 4; ++k) window[k] = before && k > 0 ? before[(k - 1) * s.d_inner] : 0;
    }
  }
  prefetch_chunk(b, chunk);
  wait_for_chunk(b.stage, published);
  load_rows(b.shared + b.at.d_h, b.tensor(b.problem.d_h, s.d_model, chunk.first_quad), s.d_model, b.columns);
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

/// How many of a quad's steps exist.
template <class B>
__device__ int existing_steps(const B& b, const Chunk& chunk, int q) {
  return chunk.steps - 4 * b.columns.quad_in_sequence(q);
}

template <class B>
__device__ float4 convolution(const B& b, int channel, int q) {
  const int m = b.columns.sequence_of(q);
  const float4 before = q == m * b.columns.length
                            ? quad_at(b.shared + b.at.window + (m * b.s.d_inner + channel) * 4)
                            : b.quad(b.at.x, channel, q - 1);
  return convolve(quad_at(b.shared + b.at.conv_weight + 4 * channel), b.shared[b.at.conv_bias + channel],
                  before, b.quad(b.at.x, channel, q));
}

/// Recomputes layer norm, v and Δ, and takes d_h through out_proj.
template <class B>
__device__ void prepare(const B& b, const Chunk& chunk) {
  const auto& s = b.s;
  if constexpr (B::tensor_cores)
    multiply_tiles<B::S::d_model, B::S::d_inner>(
        b.shared + b.at.out_proj, b.at.inner_ld, b.shared + b.at.d_h, b.columns,
        [&](int channel, int column, float sum) { b.row(b.at.d_v, channel)[column] = sum; });
  else
    multiply<4>(b.shared + b.at.out_proj, b.at.inner_ld, s.d_model, s.d_inner, b.shared + b.at.d_h, b.columns,
                [&](int channel, int q, float4 sums) { b.quad(b.at.d_v, channel, q) = sums; });
  layer_norm_forward(b.shared + b.at.u, b.shared + b.at.normalised, b.shared + b.at.scales,
                     b.shared + b.at.normalised, b.shared + b.at.norm_weight, b.shared + b.at.norm_bias,
                     s.d_model, b.columns);
  for_each_quad(s.d_inner, b.columns, [&](int channel, int q) {
    b.quad(b.at.v, channel, q) = map4(convolution(b, channel, q), silu);
    b.quad(b.at.delta, channel, q) =
        keep_first(map4(step_before_softplus(b, channel, q), softplus), existing_steps(b, chunk, q));
  });
  __syncthreads();
}

/// From the scan's gradients to that of x_proj's output; Δ's gradient becomes that of dt_proj's output.
template <class B>
__device__ void projected_backward(const B& b, const Chunk& chunk) {
  const auto& s = b.s;
  for_each_quad(2 * s.padded_state(), b.columns, [&](int r, int q) {
    b.quad(b.at.d_projected, s.rank + r, q) = scan_sums(b.shared + b.at.checkpoints, s, b.columns, r, q);
  });
  for_each_quad(s.d_inner, b.columns, [&](int channel, int q) {
    float4& d = b.quad(b.at.delta, channel, q);
    d = keep_first(d * map4(step_before_softplus(b, channel, q), sigmoid), existing_steps(b, chunk, q));
  });
  __syncthreads();

  const int items = s.rank * b.columns.quads,
            part = threadIdx.x % 8;  // eight threads a sum over the channels
  for (int item = threadIdx.x / 8; item < round_up(items, 4); item += blockDim.x / 8) {
    const int existing = min(item, items - 1), r = existing / b.columns.quads, q = existing % b.columns.quads;
    float4 total = splat(0);
    for (int channel = part; channel < s.d_inner; channel += 8)
      total = fma4(b.shared[b.at.step_weight + channel * s.rank + r], b.quad(b.at.delta, channel, q), total);
#pragma unroll
    for (int distance = 1; distance < 8; distance *= 2)
      total = total + map4(total, [&](float a) { return __shfl_xor_sync(0xffffffffu, a, distance); });
    if (item < items && part == 0) b.quad(b.at.d_projected, r, q) = total;
  }
  __syncthreads();
}

/// Gradient of the convolution's output, and the parameters that act on single channels.
template <class B>
__device__ void convolution_backward(const B& b) {
  const auto& s = b.s;
  const MambaOffsets& of = b.problem.offsets;
  if constexpr (B::tensor_cores) {
    multiply_tiles<B::S::projected(), B::S::d_inner>(
        b.shared + b.at.x_proj, b.at.inner_ld, b.shared + b.at.d_projected, b.columns,
        [&](int channel, int column, float sum) { b.row(b.at.d_v, channel)[column] += sum; });
    __syncthreads();
    for_each_quad(s.d_inner, b.columns, [&](int channel, int q) {
      const auto slope = [](float c) { return silu_slope(c, sigmoid(c)); };
      float4& d = b.quad(b.at.d_v, channel, q);
      d = d * map4(convolution(b, channel, q), slope);
    });
  } else {
    multiply<4>(b.shared + b.at.x_proj, b.at.inner_ld, s.projected(), s.d_inner, b.shared + b.at.d_projected,
                b.columns, [&](int channel, int q, float4 sums) {
                  const auto slope = [](float c) { return silu_slope(c, sigmoid(c)); };
                  float4& d = b.quad(b.at.d_v, channel, q);
                  d = (d + sums) * map4(convolution(b, channel, q), slope);
                });
  }
  __syncthreads();

  sum_columns<6>(
      s.d_inner, b.columns,
      [&](int channel, int q, float(&sums)[6]) {
        const int m = b.columns.sequence_of(q);
        const float4 d = b.quad(b.at.d_v, channel, q), x = b.quad(b.at.x, channel, q);
        const float4 before = q == m * b.columns.length
                                  ? quad_at(b.shared + b.at.window + (m * s.d_inner + channel) * 4)
                                  : b.quad(b.at.x, channel, q - 1);
        sums[0] += sum(d * make_float4(before.y, before.z, before.w, x.x));
        sums[1] += sum(d * make_float4(before.z, before.w, x.x, x.y));
        sums[2] += sum(d * make_float4(before.w, x.x, x.y, x.z));
        sums[3] += sum(d * x);
        sums[4] += sum(d);
        sums[5] += sum(b.quad(b.at.delta, channel, q));
      },
      [&](int channel, const float(&sums)[6]) {
        for (int k = 0; k < 4; ++k) b.sums[of.conv_weight + 4 * channel + k] += sums[k];
        b.sums[of.conv_bias + channel] += sums[4];
        b.sums[of.step_bias + channel] += sums[5];
      });
  sum_columns<1>(
      s.d_inner * s.rank, b.columns,
      [&](int i, int q, float(&sums)[1]) {
        sums[0] += sum(b.quad(b.at.delta, i / s.rank, q) * b.quad(b.at.projected, i % s.rank, q));
      },
      [&](int i, const float(&sums)[1]) { b.sums[of.step_weight + i] += sums[0]; });
  __syncthreads();
}

/// dx_t = Σ_k weight_k dc_{t+3−k}, in place of x; a gradient of the final state adds to the last three.
template <class B>
__device__ void window_backward(const B& b, const Chunk& chunk) {
  const auto& s = b.s;
  for_each_quad(s.d_inner, b.columns, [&](int channel, int q) {
    const int m = b.columns.sequence_of(q);
    const float4 d = b.quad(b.at.d_v, channel, q);
    const float4 after = q == (m + 1) * b.columns.length - 1
                             ? quad_at(b.shared + b.at.d_window + (m * s.d_inner + channel) * 4)
                             : b.quad(b.at.d_v, channel, q + 1);
    const float4 w = quad_at(b.shared + b.at.conv_weight + 4 * channel);
    float steps[4];
    unpack(steps, convolve(make_float4(w.x, w.y, w.z, w.w), 0, make_float4(0, after.z, after.y, after.x),
                           make_float4(d.w, d.z, d.y, d.x)));  // time runs the other way
    float4 d_x{steps[3], steps[2], steps[1], steps[0]};
    const int after_window = 4 * (chunk.first_quad + b.columns.quad_in_sequence(q)) - (b.problem.time - 3);
    if (after_window > -4 && b.problem.d_final_state && m < b.existing) {
      const float* const d_final = b.state(b.problem.d_final_state, m).window;
      float add[4];
      for (int j = 0; j < 4; ++j) {
        const int k = after_window + j;
        add[j] = k >= 0 && k < 3 ? d_final[k * s.d_inner + channel] : 0;
      }
      d_x = d_x + make_float4(add[0], add[1], add[2], add[3]);
    }
    b.quad(b.at.x, channel, q) = d_x;
  });
  __syncthreads();
}

/// The gradient of the three x before the sequence.
template <class B>
__device__ void write_initial_window(const B& b) {
  const auto& s = b.s;
  for (int i = threadIdx.x; i < b.existing * 3 * s.d_inner; i += blockDim.x) {
    const int m = i / (3 * s.d_inner), k = i / s.d_inner % 3, channel = i % s.d_inner;
    float d = 0;
    for (int j = 0; j <= k; ++j)  // x_{k−3} acts on c_{k−j} through weight j
      d = fmaf(b.shared[b.at.conv_weight + 4 * channel + j],
               b.row(b.at.d_v, channel)[4 * m * b.columns.length + k - j], d);
    if (b.problem.d_final_state && k >= b.problem.time)
      d += b.state(b.problem.d_final_state, m).window[(k - b.problem.time) * s.d_inner + channel];
    b.state(b.problem.d_initial_state, m).window[k * s.d_inner + channel] = d;
  }
}

/// The gradients of out_proj, x_proj and in_proj, sixteen of their rows (or columns) to a warp.
template <class Sizes, class C>
__device__ void dense_gradients(const Block<C, Sizes>& b) {
  constexpr Sizes s{MambaSizes{}};
  static_assert(s.d_state == s.padded_state());
  constexpr int of_inner = tiles_of(s.d_inner, 16), of_both = tiles_of(2 * s.d_inner, 16),
                model_tiles = tiles_of(s.d_model, 8), projected_tiles = tiles_of(s.projected(), 8);
  const MambaOffsets& of = b.problem.offsets;
  float* const sums = b.sums;
  const auto rows = [&](int at) { return b.shared + at; };
  for (int unit = threadIdx.x / 32; unit < 2 * of_inner + of_both; unit += blockDim.x / 32) {
    if (unit < of_inner)
      outer_product_rows<model_tiles>(
          rows(b.at.gated), 16 * unit, s.d_inner, rows(b.at.d_h), s.d_model, b.columns,
          [&](int m, int n, float sum) { sums[of.out_proj + n * s.d_inner + m] += sum; });
    else if (unit < 2 * of_inner)
      outer_product_rows<projected_tiles>(
          rows(b.at.v), 16 * (unit - of_inner), s.d_inner, rows(b.at.d_projected), s.projected(), b.columns,
          [&](int m, int n, float sum) { sums[of.x_proj + n * s.d_inner + m] += sum; });
    else
      outer_product_rows<model_tiles>(
          rows(b.at.x), 16 * (unit - 2 * of_inner), 2 * s.d_inner, rows(b.at.u), s.d_model, b.columns,
          [&](int m, int n, float sum) { sums[of.in_proj + m * s.d_model + n] += sum; });
  }
}

/// Through in_proj and the layer norm to the gradient of h, and the large weight gradients.
template <class B>
__device__ void finish_chunk(const B& b, const Chunk& chunk, const OuterProduct* jobs) {
  const auto& s = b.s;
  const MambaOffsets& of = b.problem.offsets;
  const int d_u = b.at.delta, d_h = b.at.delta + s.d_model * b.columns.stride;  // Δ is no longer needed
  if constexpr (B::tensor_cores)
    multiply_tiles<2 * B::S::d_inner, B::S::d_model>(
        b.shared + b.at.in_proj, b.at.model_ld, b.shared + b.at.x, b.columns,
        [&](int o, int column, float sum) { b.row(d_u, o)[column] = sum; });
  else
    multiply<2>(b.shared + b.at.in_proj, b.at.model_ld, 2 * s.d_inner, s.d_model, b.shared + b.at.x,
                b.columns, [&](int o, int q, float4 sums) { b.quad(d_u, o, q) = sums; });
  if (chunk.first && b.problem.d_initial_state) write_initial_window(b);
  for (int i = threadIdx.x; i < b.columns.sequences * s.d_inner; i += blockDim.x)
    quad_at(b.shared + b.at.d_window + 4 * i) =
        b.quad(b.at.d_v, i % s.d_inner, i / s.d_inner * b.columns.length);
  __syncthreads();

  layer_norm_backward(b.shared + d_h, b.shared + b.at.d_h, b.shared + d_u, b.shared + b.at.normalised,
                      b.shared + b.at.scales, b.shared + b.at.norm_weight, s.d_model, b.columns);
  __syncthreads();

  store_rows(b.tensor(b.problem.d_h, s.d_model, chunk.first_quad), b.shared + d_h, s.d_model, b.columns);
  if constexpr (B::tensor_cores)
    dense_gradients(b);
  else
    outer_products(jobs, weight_gradients, b.shared, b.sums, b.columns);
  sum_columns<2>(
      s.d_model, b.columns,
      [&](int i, int q, float(&sums)[2]) {
        sums[0] += sum(b.quad(d_u, i, q) * b.quad(b.at.normalised, i, q));
        sums[1] += sum(b.quad(d_u, i, q));
      },
      [&](int i, const float(&sums)[2]) {
        b.sums[of.norm_weight + i] += sums[0];
        b.sums[of.norm_bias + i] += sums[1];
      });
}

template <class B>
__device__ void list_weight_gradients(const B& b, OuterProduct* jobs) {
  const auto& s = b.s;
  const MambaOffsets& of = b.problem.offsets;
  const int stride = b.columns.stride, B_rows = b.at.d_projected + s.rank * stride,
            C_rows = B_rows + s.padded_state() * stride;
  jobs[0] = {b.at.d_h, b.at.gated, s.d_model, s.d_inner, of.out_proj, s.d_inner};
  jobs[1] = {b.at.d_projected, b.at.v, s.rank, s.d_inner, of.x_proj, s.d_inner};
  jobs[2] = {B_rows, b.at.v, s.d_state, s.d_inner, of.x_proj + s.rank * s.d_inner, s.d_inner};
  jobs[3] = {C_rows, b.at.v, s.d_state, s.d_inner, of.x_proj + (s.rank + s.d_state) * s.d_inner, s.d_inner};
  jobs[4] = {b.at.x, b.at.u, s.d_inner, s.d_model, of.in_proj, s.d_model};
  jobs[5] = {b.at.z, b.at.u, s.d_inner, s.d_model, of.in_proj + s.d_inner * s.d_model, s.d_model};
}

template <class B>
__device__ void write_results(const B& b, float* partial) {
  const auto& s = b.s;
  const MambaOffsets& of = b.problem.offsets;
  for (int i = threadIdx.x; i < s.d_inner * s.d_state; i += blockDim.x) {
    const int at = i / s.d_state * s.padded_state() + i % s.d_state;
    float total = 0;
    for (int m = 0; m < b.columns.sequences; ++m) total += b.shared[b.at.d_A + m * s.state_count() + at];
    b.sums[of.A_log + i] = ln_2 * b.shared[b.at.A + at] * total;
  }
  for (int i = threadIdx.x; i < s.d_inner; i += blockDim.x) {
    float total = 0;
    for (int m = 0; m < b.columns.sequences; ++m) total += b.shared[b.at.d_D + m * s.d_inner + i];
    b.sums[of.D + i] = total;
  }
  __syncthreads();
  if (partial != b.sums)
    for (int i = threadIdx.x; i < of.size; i += blockDim.x) partial[i] = b.sums[i];
  if (b.problem.d_initial_state)
    for (int m = 0; m < b.existing; ++m)
      export_states(b.state(b.problem.d_initial_state, m).states,
                    b.shared + b.at.d_state + m * s.state_count(), b.problem.sizes);
}

template <class Sizes, class C, int THREADS>
__global__ void __launch_bounds__(THREADS, 1)
    mamba_backward_kernel(const MambaBackward problem, bool shared_sums) {
  extern __shared__ float4 shared_quads[];
  __shared__ int shared_ticket;
  __shared__ OuterProduct jobs[weight_gradients];
  constexpr C columns;
  constexpr int sequences = columns.sequences, length = columns.length;
  const int groups = (problem.batch + sequences - 1) / sequences;
  const Stage stage = take_stage({problem.counters, problem.counters + 1}, groups, problem.layers,
                                 Direction::backward, &shared_ticket);
  const int first_sample = stage.group * sequences;
  Block<C, Sizes> b{problem,
                    Sizes(problem.sizes),
                    Layout(Sizes(problem.sizes), columns, shared_sums ? problem.offsets.size : 0),
                    reinterpret_cast<float*>(shared_quads),
                    stage,
                    stage.model * problem.batch + first_sample,
                    min(sequences, problem.batch - first_sample),
                    nullptr};
  float* const partial =
      problem.partials +
      ((static_cast<size_t>(stage.model) * groups + stage.group) * problem.layers + stage.layer) *
          problem.offsets.size;
  b.sums = shared_sums ? b.shared + b.at.sums : partial;

  load_parameters(b);
  start_sums(b);
  if (threadIdx.x == 0) list_weight_gradients(b, jobs);
  __syncthreads();
  const auto scan = [&] {
    const ScanBackward in{b.shared + b.at.A,          b.shared + b.at.D,         b.shared + b.at.start,
                          b.shared + b.at.d_state,    b.shared + b.at.d_A,       b.shared + b.at.d_D,
                          b.shared + b.at.v,          b.shared + b.at.projected, b.shared + b.at.delta,
                          b.shared + b.at.z,          b.shared + b.at.d_v,       b.shared + b.at.gated,
                          b.shared + b.at.checkpoints};
    scan_backward(in, b.s, columns);
    __syncthreads();
  };

  const int chunks = (problem.quads + length - 1) / length;
  for (int c = chunks; c-- > 0;) {
    const Chunk chunk{c * length, min(4 * length, problem.time - 4 * c * length), c == 0};
    load_chunk(b, chunk, chunks - 1 - c);
    prepare(b, chunk);
    scan();
    projected_backward(b, chunk);
    convolution_backward(b);
    window_backward(b, chunk);
    finish_chunk(b, chunk, jobs);
    publish_chunks(stage, chunks - c);
  }
  write_results(b, partial);
}

using BackwardVariant = Variant<void (*)(MambaBackward, bool), MambaSizes>;

template <class Sizes, int SEQUENCES, int LENGTH>
constexpr BackwardVariant variant(int d_model = 0, int d_state = 0) {
  using C = Columns<SEQUENCES, LENGTH>;
  constexpr int threads = 384;
  const auto bytes = [](const MambaSizes& sizes, int shared_sums) {
    return sizeof(float) * static_cast<std::size_t>(Layout(sizes, C{}, shared_sums).total);
  };
  return {mamba_backward_kernel<Sizes, C, threads>,
          bytes,
          threads,
          SEQUENCES,
          LENGTH,
          1,
          Sizes::states_per_thread,
          d_model,
          d_state};
}
template <int D_MODEL, int D_STATE, int SEQUENCES, int LENGTH>
constexpr BackwardVariant fixed() {
  return variant<FixedMambaSizes<D_MODEL, D_STATE>, SEQUENCES, LENGTH>(D_MODEL, D_STATE);
}

/// As many sequences a block as let all layers of a batch of 96 run at once on the 132 multiprocessors of an
/// H200, one block on each: three with four layers (Burgers) or three (power grid), two with two layers
/// (KdV).
const BackwardVariant variants[] = {fixed<22, 12, 3, 6>(),
                                    fixed<24, 12, 2, 8>(),
                                    fixed<10, 16, 3, 12>(),
                                    fixed<63, 16, 1, 3>(),
                                    variant<AnyMambaSizes<4>, 3, 4>(),
                                    variant<AnyMambaSizes<4>, 1, 3>(),
                                    variant<AnyMambaSizes<4>, 1, 1>()};

}  // namespace

std::optional<LaunchPlan> plan_mamba_backward(const MambaSizes& sizes, int parameters,
                                              const SharedMemory& memory) {
  return choose(std::span<const BackwardVariant>(variants), sizes, parameters, memory,
                [&](const BackwardVariant& v) { return suits(v, sizes); });
}

void launch_mamba_backward(const MambaBackward& problem, const LaunchPlan& plan, cudaStream_t stream) {
  const auto kernel = variants[plan.variant].kernel;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(plan.bytes));
  kernel<<<problem.models * plan.groups(problem.batch) * problem.layers, plan.threads, plan.bytes, stream>>>(
      problem, plan.shared_sums);
}

}  // namespace mac::cuda
