// The layers before the first block and after the last one: token by token, in tiles of time.
#include <iterator>
#include <type_traits>
#include <utility>

#include "network/cuda/input_output.hpp"
#include "network/cuda/launch_plan.hpp"
#include "network/cuda/shared_layout.cuh"
#include "network/cuda/tensor_cores.cuh"
#include "network/cuda/time_columns.cuh"
#include "network/cuda/tuned_networks.hpp"

namespace mac::cuda {

namespace {

constexpr int most_threads = 512;            // of a block, and of a multiprocessor's blocks together
constexpr TimeColumns<frame_quads> columns;  // a tile
constexpr int slices = 32;                   // of the parts of a sum

/// A problem whose sizes the compiler knows, which takes a third less time.
template <int D_MODEL, int D_IN, int D_OUT>
struct FixedEnds : InputOutputProblem {
  static constexpr int d_model = D_MODEL, d_in = D_IN, d_out = D_OUT;
};

struct Tile {
  int sequence, sequences;  // the first, and how many
  int first_quad, quads;    // of the first sequence; that exist in the tile
  int steps;                // of each sequence that exist in the tile
};

/// The tiles of a model's sequences, dealt out to gridDim.x blocks; blockIdx.y is the model.
template <class F>
__device__ void for_each_tile(const InputOutputProblem& p, F f) {
  const int per_tile = p.sequences_per_tile(), per_sequence = p.tiles_per_sequence();
  const int tiles = p.tiles();
  for (int i = blockIdx.x; i < tiles; i += gridDim.x) {
    const int first = i / per_sequence * per_tile, sequences = min(per_tile, p.batch - first);
    const int first_quad = i % per_sequence * columns.quads;
    f(Tile{static_cast<int>(blockIdx.y) * p.batch + first, sequences, first_quad,
           sequences * p.quads - first_quad, min(4 * columns.quads, p.time - 4 * first_quad)});
    __syncthreads();
  }
}

template <class Problem>
__device__ TileView view(const float* tensor, const Problem& p, const Tile& tile) {
  return {const_cast<float*>(tensor) +
              (static_cast<size_t>(tile.sequence) * p.sequence_quads + tile.first_quad) * p.d_model * 4,
          p.d_model, tile.quads};
}

/// f(place in rows, place in (sequence, time, channels) or −1 if there is no such step) for the numbers of a
/// tile; the second counts from the tile's first step on.
template <class F>
__device__ void for_each_number(int channels, const InputOutputProblem& p, const Tile& tile, F f) {
  const auto walk = [&](auto place) {
    for (int i = threadIdx.x; i < 4 * columns.quads * channels; i += blockDim.x) {
      const int column = i / channels, channel = i - column * channels;
      f(channel * columns.stride + column, place(i, column));
    }
  };
  if (tile.sequences == 1) {
    const int count = tile.steps * channels;
    walk([=](int i, int) { return i < count ? i : -1; });
  } else {  // whole quads in rows, without the steps between time and the end of its quad outside
    const int room = 4 * p.quads, gap = (room - p.time) * channels;
    walk([=, time = p.time, sequences = tile.sequences](int i, int column) {
      const int sequence = column / room;
      return sequence < sequences && column - sequence * room < time ? i - sequence * gap : -1;
    });
  }
}

/// rows from (sequence, time, channels); zeros where there is no step.
__device__ void load_steps(float* rows, const float* from, int channels, const InputOutputProblem& p,
                           const Tile& tile) {
  from += (static_cast<size_t>(tile.sequence) * p.time + 4 * tile.first_quad) * channels;
  for_each_number(channels, p, tile, [&](int to, int i) { rows[to] = i >= 0 ? from[i] : 0; });
}

__device__ void store_steps(float* to, const float* rows, int channels, const InputOutputProblem& p,
                            const Tile& tile) {
  to += (static_cast<size_t>(tile.sequence) * p.time + 4 * tile.first_quad) * channels;
  for_each_number(channels, p, tile, [&](int from, int i) {
    if (i >= 0) to[i] = rows[from];
  });
}

__device__ const float* parameters_of_model(const InputOutputProblem& p) {
  return p.parameters + blockIdx.y * p.parameter_count;
}

__device__ float2& pair_at(float* rows, int row, int column) {
  return *reinterpret_cast<float2*>(rows + row * columns.stride + column);
}

/// out = weight · in for a tile's columns, on the tensor cores: finish(o, column, sums of it and the next).
template <class Sums, class Finish>
__device__ void multiply_frame(const float* weight, int n_out, int n_in, const float* in, Finish finish) {
  multiply_all_tiles<Sums, 2>(weight, n_out, n_in, in, columns, whole_block(),
                              [&](int o, int first, int c, float2 sums) { finish(o, first + c, sums); });
}

/// A layer's gradients: sums (m_count, n_count + 1) += Σ_columns d_m · (in_n, 1), weights and then the bias;
/// in tiles. `first` is the first of the block's warps that takes a part; returns the one after the last.
__device__ int add_layer_gradient(float* sums, const float* d, int m_count, const float* in, int n_count,
                                  int first) {
  const int warp = static_cast<int>(threadIdx.x / 32), warps = static_cast<int>(blockDim.x / 32);
  const int groups = tiles_of(tiles_of(n_count + 1, 8), outer_group);
  const int parts = tiles_of(m_count, 16) * groups;
  for (int part = (warp + warps - first) % warps; part < parts; part += warps) {
    float* const all_sums[1] = {sums};
    const float* const rows[1] = {d};
    add_outer_group(all_sums, rows, part / groups, m_count, part % groups * outer_group, n_count + 1, columns,
                    [&](int n, int column) { return n < n_count ? in[n * columns.stride + column] : 1.0f; });
  }
  return (first + parts) % warps;
}

/// The gradients of a layer, from tiles to where its weights and its bias lie in `partial`.
__device__ void write_layer_gradient(float* partial, int weight, int bias, const float* sums, int m_count,
                                     int n_count) {
  for_each_sum(sums, m_count, n_count + 1, [&](int m, int n, float sum) {
    partial[n < n_count ? weight + m * n_count + n : bias + m] = sum;
  });
}

/// Places in shared memory of input_proj, forward and backward.
struct InputLayout {
  int weight, weight_back, bias, x, h, d_h, sums, total;  // weights in tiles

  template <class Problem>
  __host__ __device__ InputLayout(const Problem& p, bool backward) {
    SharedLayout shared;
    weight = shared.take(tile_floats(p.d_model, p.d_in)), bias = shared.take(p.d_model);
    weight_back = shared.take(backward ? tile_floats(p.d_in, p.d_model) : 0);
    x = shared.take(p.d_in * columns.stride);
    h = shared.take(backward ? 0 : p.d_model * columns.stride);
    d_h = shared.take(backward ? p.d_model * columns.stride : 0);
    sums = shared.take(backward ? tile_floats(p.d_model, p.d_in + 1) : 0);
    total = shared.used;
  }
};

template <class Problem>
__device__ void load_input_parameters(float* shared, const InputLayout& at, const Problem& p, bool backward) {
  const float* const w = parameters_of_model(p) + p.input_weight;
  load_tiles(shared + at.weight, p.d_model, p.d_in, [&](int o, int i) { return w[o * p.d_in + i]; });
  load(shared + at.bias, parameters_of_model(p) + p.input_bias, p.d_model);
  if (backward)
    load_tiles(shared + at.weight_back, p.d_in, p.d_model, [&](int i, int o) { return w[o * p.d_in + i]; });
}

template <class Problem>
__global__ void __launch_bounds__(most_threads)
    input_forward_kernel(const Problem p, const float* x, float* h) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  const InputLayout at(p, false);
  load_input_parameters(shared, at, p, false);
  for_each_tile(p, [&](const Tile& tile) {
    load_steps(shared + at.x, x, p.d_in, p, tile);
    __syncthreads();
    multiply_frame<RoundedTileC>(
        shared + at.weight, p.d_model, p.d_in, shared + at.x, [&](int o, int column, float2 sums) {
          const float bias = shared[at.bias + o];
          pair_at(shared + at.h, o, column) = map2(sums, [&](float a) { return silu(a + bias); });
        });
    __syncthreads();
    store_rows(view(h, p, tile), shared + at.h, p.d_model, columns);
  });
}

template <class Problem>
__global__ void __launch_bounds__(most_threads)
    input_backward_kernel(const Problem p, const float* x, const float* d_h, float* d_x, float* partials) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  const InputLayout at(p, true);
  load_input_parameters(shared, at, p, true);
  fill(shared + at.sums, tile_floats(p.d_model, p.d_in + 1), 0);
  __syncthreads();
  for_each_tile(p, [&](const Tile& tile) {
    load_rows(shared + at.d_h, view(d_h, p, tile), p.d_model, columns);
    load_steps(shared + at.x, x, p.d_in, p, tile);
    wait_for_copies();
    __syncthreads();
    multiply_frame<RoundedTileC>(
        shared + at.weight, p.d_model, p.d_in, shared + at.x, [&](int o, int column, float2 embedding) {
          const float bias = shared[at.bias + o];
          float2& d = pair_at(shared + at.d_h, o, column);
          d = d * map2(embedding, [&](float a) { return silu_slope(a + bias, sigmoid(a + bias)); });
        });
    __syncthreads();
    add_layer_gradient(shared + at.sums, shared + at.d_h, p.d_model, shared + at.x, p.d_in, 0);
    if (!d_x) return;
    __syncthreads();
    multiply_frame<TileC>(shared + at.weight_back, p.d_in, p.d_model, shared + at.d_h,
                          [&](int i, int column, float2 sums) { pair_at(shared + at.x, i, column) = sums; });
    __syncthreads();
    store_steps(d_x, shared + at.x, p.d_in, p, tile);
  });
  write_layer_gradient(partials + (static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x) * p.input_size(),
                       0, p.d_model * p.d_in, shared + at.sums, p.d_model, p.d_in);
}

/// Places in shared memory of the output layers, forward and backward.
struct OutputLayout {
  int norm_weight, norm_bias, hidden, hidden_bias, output, output_bias;  // weights in tiles
  int hidden_back, output_back;                                          // transposed
  int h, u, act, y, d_hidden, d_u, scales;
  int norm_sums, hidden_sums, output_sums, total;

  template <class Problem>
  __host__ __device__ OutputLayout(const Problem& p, bool backward) {
    SharedLayout shared;
    const int d = p.d_model;
    norm_weight = shared.take(d), norm_bias = shared.take(d);
    hidden = shared.take(tile_floats(d, d)), hidden_bias = shared.take(d);
    output = shared.take(backward ? 0 : tile_floats(p.d_out, d)), output_bias = shared.take(p.d_out);
    hidden_back = shared.take(backward ? tile_floats(d, d) : 0),
    output_back = shared.take(backward ? tile_floats(d, p.d_out) : 0);
    h = shared.take(d * columns.stride), u = shared.take(d * columns.stride),
    act = shared.take(d * columns.stride);
    y = shared.take(p.d_out * columns.stride);
    d_hidden = shared.take(backward ? d * columns.stride : 0),
    d_u = shared.take(backward ? d * columns.stride : 0);
    scales = shared.take(4 * columns.quads);
    norm_sums = shared.take(backward ? 2 * d : 0);
    hidden_sums = shared.take(backward ? tile_floats(d, d + 1) : 0);
    output_sums = shared.take(backward ? tile_floats(p.d_out, d + 1) : 0);
    total = shared.used;
  }
};

/// Offsets of the output layers' parameters from norm.weight on.
struct Tail {
  int norm_bias, hidden, hidden_bias, output, output_bias;
  template <class Problem>
  __device__ explicit Tail(const Problem& p)
      : norm_bias(p.d_model),
        hidden(2 * p.d_model),
        hidden_bias(hidden + p.d_model * p.d_model),
        output(hidden_bias + p.d_model),
        output_bias(output + p.d_out * p.d_model) {}
};

template <class Problem>
__device__ void load_output_parameters(float* shared, const OutputLayout& at, const Problem& p,
                                       bool backward) {
  const float* const w = parameters_of_model(p) + p.tail;
  const Tail tail(p);
  load(shared + at.norm_weight, w, p.d_model);
  load(shared + at.norm_bias, w + tail.norm_bias, p.d_model);
  const float *const w1 = w + tail.hidden, *const w2 = w + tail.output;
  load_tiles(shared + at.hidden, p.d_model, p.d_model, [&](int o, int i) { return w1[o * p.d_model + i]; });
  load(shared + at.hidden_bias, w + tail.hidden_bias, p.d_model);
  load(shared + at.output_bias, w + tail.output_bias, p.d_out);
  if (backward) {
    load_tiles(shared + at.hidden_back, p.d_model, p.d_model,
               [&](int i, int o) { return w1[o * p.d_model + i]; });
    load_tiles(shared + at.output_back, p.d_model, p.d_out,
               [&](int i, int o) { return w2[o * p.d_model + i]; });
  } else {
    load_tiles(shared + at.output, p.d_out, p.d_model, [&](int o, int i) { return w2[o * p.d_model + i]; });
  }
}

template <class Problem>
__global__ void __launch_bounds__(most_threads)
    output_forward_kernel(const Problem p, const float* h, float* y) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  const OutputLayout at(p, false);
  load_output_parameters(shared, at, p, false);
  for_each_tile(p, [&](const Tile& tile) {
    load_rows(shared + at.h, view(h, p, tile), p.d_model, columns);
    wait_for_copies();
    __syncthreads();
    layer_norm_forward(shared + at.u, nullptr, nullptr, shared + at.h, shared + at.norm_weight,
                       shared + at.norm_bias, p.d_model, columns);
    __syncthreads();
    multiply_frame<RoundedTileC>(
        shared + at.hidden, p.d_model, p.d_model, shared + at.u, [&](int o, int column, float2 sums) {
          const float bias = shared[at.hidden_bias + o];
          pair_at(shared + at.act, o, column) = map2(sums, [&](float a) { return silu(a + bias); });
        });
    __syncthreads();
    multiply_frame<RoundedTileC>(shared + at.output, p.d_out, p.d_model, shared + at.act,
                                 [&](int o, int column, float2 sums) {
                                   const float bias = shared[at.output_bias + o];
                                   pair_at(shared + at.y, o, column) = {sums.x + bias, sums.y + bias};
                                 });
    __syncthreads();
    store_steps(y, shared + at.y, p.d_out, p, tile);
  });
}

template <class Problem>
__global__ void __launch_bounds__(most_threads)
    output_backward_kernel(const Problem p, const float* h, const float* d_y, float* d_h, float* partials) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  const OutputLayout at(p, true);
  const Tail tail(p);
  const int d = p.d_model;
  load_output_parameters(shared, at, p, true);
  fill(shared + at.norm_sums, 2 * d, 0), fill(shared + at.hidden_sums, tile_floats(d, d + 1), 0),
      fill(shared + at.output_sums, tile_floats(p.d_out, d + 1), 0);
  __syncthreads();
  for_each_tile(p, [&](const Tile& tile) {
    load_rows(shared + at.h, view(h, p, tile), d, columns);
    load_steps(shared + at.y, d_y, p.d_out, p, tile);
    wait_for_copies();
    __syncthreads();
    layer_norm_forward(shared + at.u, shared + at.h, shared + at.scales, shared + at.h,
                       shared + at.norm_weight, shared + at.norm_bias, d, columns);
    multiply_frame<TileC>(
        shared + at.output_back, d, p.d_out, shared + at.y,
        [&](int o, int column, float2 sums) { pair_at(shared + at.d_hidden, o, column) = sums; });
    __syncthreads();
    multiply_frame<RoundedTileC>(
        shared + at.hidden, d, d, shared + at.u, [&](int o, int column, float2 sums) {
          const float bias = shared[at.hidden_bias + o];
          const float2 hidden{sums.x + bias, sums.y + bias};
          pair_at(shared + at.act, o, column) = map2(hidden, silu);
          float2& d_hidden = pair_at(shared + at.d_hidden, o, column);
          d_hidden = d_hidden * map2(hidden, [](float a) { return silu_slope(a, sigmoid(a)); });
        });
    __syncthreads();
    multiply_frame<TileC>(
        shared + at.hidden_back, d, d, shared + at.d_hidden,
        [&](int o, int column, float2 sums) { pair_at(shared + at.d_u, o, column) = sums; });
    const int next =
        add_layer_gradient(shared + at.hidden_sums, shared + at.d_hidden, d, shared + at.u, d, 0);
    add_layer_gradient(shared + at.output_sums, shared + at.y, p.d_out, shared + at.act, d, next);
    __syncthreads();
    sum_columns<2>(
        d, columns,
        [&](int i, int q, float(&s)[2]) {
          const float4 d_u = quad_at(shared + at.d_u + i * columns.stride + 4 * q);
          s[0] += sum(d_u * quad_at(shared + at.h + i * columns.stride + 4 * q)), s[1] += sum(d_u);
        },
        [&](int i, const float(&s)[2]) {
          shared[at.norm_sums + i] += s[0], shared[at.norm_sums + d + i] += s[1];
        });
    const TileView to = view(d_h, p, tile);
    layer_norm_backward(shared + at.d_u, shared + at.h, shared + at.scales, shared + at.norm_weight, d,
                        columns, whole_block(), [&](int i, int column, float value) {
                          if (to.has(column / 4)) __stcg(to.at(column / 4, i) + column % 4, value);
                        });
  });
  float* const partial =
      partials + (static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x) * p.tail_size();
  for (int i = threadIdx.x; i < 2 * d; i += blockDim.x) partial[i] = shared[at.norm_sums + i];
  write_layer_gradient(partial, tail.hidden, tail.hidden_bias, shared + at.hidden_sums, d, d);
  write_layer_gradient(partial, tail.output, tail.output_bias, shared + at.output_sums, p.d_out, d);
}

__global__ void reduce_partials_kernel(const float* partials, int parts, int count, float* gradients,
                                       size_t stride, bool add) {
  __shared__ float of_slice[slices][32];
  const int i = blockIdx.x * 32 + threadIdx.x;
  const float* const from = partials + static_cast<size_t>(blockIdx.y) * parts * count + i;
  float total = 0;
  if (i < count)
    for (int part = threadIdx.y; part < parts; part += slices)
      total += from[static_cast<size_t>(part) * count];
  of_slice[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y > 0 || i >= count) return;
  float& gradient = gradients[blockIdx.y * stride + i];
  float result = add ? gradient : 0;
  for (const auto& slice : of_slice) result += slice[threadIdx.x];
  gradient = result;
}

/// Blocks of a forward pass: a tile each, or a few, so that the weights are not loaded too often.
dim3 forward_blocks(const InputOutputProblem& p) {
  constexpr int most = 2112;
  return dim3(static_cast<unsigned>(p.tiles() < most ? p.tiles() : most), static_cast<unsigned>(p.models));
}

dim3 backward_blocks(const InputOutputProblem& p) {
  return dim3(static_cast<unsigned>(p.parts()), static_cast<unsigned>(p.models));
}

/// f(problem) with the sizes of network I known to the compiler, if these are its sizes and there are kernels
/// for them. Of wide networks (those for Lorenz '96) the frame is a small part.
template <std::size_t I, class F>
bool with_sizes_of(const InputOutputProblem& p, F f) {
  constexpr PaperNetwork network = paper_networks[I];
  constexpr int d_model = network.shape.d_model, d_in = network.shape.d_in, d_out = network.shape.d_out;
  if constexpr (network.tuned && d_model <= 32) {
    if (p.d_model != d_model || p.d_in != d_in || p.d_out != d_out) return false;
    f(FixedEnds<d_model, d_in, d_out>{p});
    return true;
  }
  return false;
}
template <class F, std::size_t... I>
bool with_any_sizes(const InputOutputProblem& p, F f, std::index_sequence<I...>) {
  return (with_sizes_of<I>(p, f) || ...);
}

/// f(problem), with sizes known to the compiler where it is one of the paper's networks.
template <class F>
void with_sizes(const InputOutputProblem& p, F f) {
  if (!with_any_sizes(p, f, std::make_index_sequence<std::size(paper_networks)>())) f(p);
}

/// Blocks have the more threads, the fewer of them a multiprocessor's shared memory holds.
template <class Kernel, class... Args>
void launch(Kernel kernel, dim3 grid, int shared_floats, cudaStream_t stream, Args... args) {
  const int bytes = shared_floats * static_cast<int>(sizeof(float));
  const int blocks = bytes <= 55 << 10 ? 4 : bytes <= 110 << 10 ? 2 : 1;
  allow_shared_memory(kernel, static_cast<std::size_t>(bytes));
  kernel<<<grid, static_cast<unsigned>(most_threads / blocks), bytes, stream>>>(args...);
}

}  // namespace

std::size_t largest_input_output_bytes(const InputOutputProblem& p) {
  const int input = InputLayout(p, true).total, output = OutputLayout(p, true).total;
  return sizeof(float) * static_cast<std::size_t>(input > output ? input : output);
}

void launch_input_forward(const InputOutputProblem& p, const float* x, float* h, cudaStream_t stream) {
  with_sizes(p, [&](const auto& of) {
    launch(input_forward_kernel<std::decay_t<decltype(of)>>, forward_blocks(p), InputLayout(p, false).total,
           stream, of, x, h);
  });
}

void launch_input_backward(const InputOutputProblem& p, const float* x, const float* d_h, float* d_x,
                           float* partials, cudaStream_t stream) {
  with_sizes(p, [&](const auto& of) {
    launch(input_backward_kernel<std::decay_t<decltype(of)>>, backward_blocks(p), InputLayout(p, true).total,
           stream, of, x, d_h, d_x, partials);
  });
}

void launch_output_forward(const InputOutputProblem& p, const float* h, float* y, cudaStream_t stream) {
  with_sizes(p, [&](const auto& of) {
    launch(output_forward_kernel<std::decay_t<decltype(of)>>, forward_blocks(p), OutputLayout(p, false).total,
           stream, of, h, y);
  });
}

void launch_output_backward(const InputOutputProblem& p, const float* h, const float* d_y, float* d_h,
                            float* partials, cudaStream_t stream) {
  with_sizes(p, [&](const auto& of) {
    launch(output_backward_kernel<std::decay_t<decltype(of)>>, backward_blocks(p),
           OutputLayout(p, true).total, stream, of, h, d_y, d_h, partials);
  });
}

void launch_reduce_partials(const float* partials, int models, int parts, int count, float* gradients,
                            std::size_t stride, bool add, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((count + 31) / 32), static_cast<unsigned>(models));
  reduce_partials_kernel<<<grid, dim3(32, slices), 0, stream>>>(partials, parts, count, gradients, stride,
                                                                add);
}

}  // namespace mac::cuda
