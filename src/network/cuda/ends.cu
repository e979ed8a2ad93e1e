// The layers before the first block and after the last one: token by token, tiles of one sequence's time.
#include "network/cuda/columns.cuh"
#include "network/cuda/ends.hpp"
#include "network/cuda/shared_layout.cuh"

namespace mac::cuda {

namespace {

constexpr int threads = 128;
constexpr Columns<1, 16> columns;  // a tile
constexpr int slices = 32;         // of the parts of a sum

struct Tile {
  int sequence, first_quad, steps;  // steps that exist
};

/// The tiles of a model's sequences, dealt out to gridDim.x blocks; blockIdx.y is the model.
template <class F>
__device__ void for_each_tile(const EndsProblem& p, F f) {
  const int per_sequence = (p.quads + columns.length - 1) / columns.length;
  for (int i = blockIdx.x; i < p.batch * per_sequence; i += gridDim.x) {
    const int first_quad = i % per_sequence * columns.length;
    f(Tile{static_cast<int>(blockIdx.y) * p.batch + i / per_sequence, first_quad,
           min(4 * columns.length, p.time - 4 * first_quad)});
    __syncthreads();
  }
}

__device__ TileView view(const float* tensor, const EndsProblem& p, const Tile& tile) {
  return {const_cast<float*>(tensor) +
              (static_cast<size_t>(tile.sequence) * p.quads + tile.first_quad) * p.d_model * 4,
          p.d_model, 0, 1, p.quads - tile.first_quad};
}

/// rows from (sequence, time, channels); zeros beyond the sequence.
__device__ void load_steps(float* rows, const float* from, int channels, const EndsProblem& p,
                           const Tile& tile) {
  from += (static_cast<size_t>(tile.sequence) * p.time + 4 * tile.first_quad) * channels;
  for (int i = threadIdx.x; i < 4 * columns.quads * channels; i += blockDim.x) {
    const int step = i / channels, channel = i - step * channels;
    rows[channel * columns.stride + step] = step < tile.steps ? from[i] : 0;
  }
}

__device__ void store_steps(float* to, const float* rows, int channels, const EndsProblem& p,
                            const Tile& tile) {
  to += (static_cast<size_t>(tile.sequence) * p.time + 4 * tile.first_quad) * channels;
  for (int i = threadIdx.x; i < tile.steps * channels; i += blockDim.x) {
    const int step = i / channels, channel = i - step * channels;
    to[i] = rows[channel * columns.stride + step];
  }
}

__device__ const float* parameters_of_model(const EndsProblem& p) {
  return p.parameters + blockIdx.y * p.parameter_count;
}

/// Places in shared memory of input_proj, forward and backward.
struct InputLayout {
  int model_ld, in_ld, weight, weight_rows, bias, x, h, d_h, sums, total;

  __host__ __device__ InputLayout(const EndsProblem& p, bool backward) {
    SharedLayout shared;
    model_ld = (p.d_model + 3) / 4 * 4, in_ld = (p.d_in + 3) / 4 * 4;
    weight = shared.take(p.d_in * model_ld), bias = shared.take(p.d_model);
    weight_rows = shared.take(backward ? p.d_model * in_ld : 0);
    x = shared.take(p.d_in * columns.stride);
    h = shared.take(p.d_model * columns.stride);
    d_h = shared.take(backward ? p.d_model * columns.stride : 0);
    sums = shared.take(backward ? p.d_model * (p.d_in + 1) : 0);
    total = shared.used;
  }
};

__device__ void load_input_parameters(float* shared, const InputLayout& at, const EndsProblem& p,
                                      bool backward) {
  const float* const w = parameters_of_model(p) + p.input_weight;
  load_transposed(shared + at.weight, at.model_ld, w, p.d_model, p.d_in);
  load_padded(shared + at.bias, p.d_model, parameters_of_model(p) + p.input_bias, 1, p.d_model);
  if (backward) load_padded(shared + at.weight_rows, at.in_ld, w, p.d_model, p.d_in);
}

__global__ void __launch_bounds__(threads)
    input_forward_kernel(const EndsProblem p, const float* x, float* h) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  const InputLayout at(p, false);
  load_input_parameters(shared, at, p, false);
  for_each_tile(p, [&](const Tile& tile) {
    load_steps(shared + at.x, x, p.d_in, p, tile);
    __syncthreads();
    multiply<4>(shared + at.weight, at.model_ld, p.d_in, p.d_model, shared + at.x, columns,
                [&](int o, int q, float4 sums) {
                  quad_at(shared + at.h + o * columns.stride + 4 * q) =
                      map4(sums + splat(shared[at.bias + o]), silu);
                });
    __syncthreads();
    store_rows(view(h, p, tile), shared + at.h, p.d_model, columns);
  });
}

__global__ void __launch_bounds__(threads)
    input_backward_kernel(const EndsProblem p, const float* x, const float* d_h, float* d_x,
                          float* partials) {
  extern __shared__ float4 shared_quads[];
  __shared__ OuterProduct job;
  float* const shared = reinterpret_cast<float*>(shared_quads);
  const InputLayout at(p, true);
  float* const sums = shared + at.sums;
  float* const bias_sums = sums + p.d_model * p.d_in;
  load_input_parameters(shared, at, p, true);
  for (int i = threadIdx.x; i < p.input_size(); i += blockDim.x) sums[i] = 0;
  if (threadIdx.x == 0) job = {at.d_h, at.x, p.d_model, p.d_in, 0, p.d_in};
  __syncthreads();
  for_each_tile(p, [&](const Tile& tile) {
    load_rows(shared + at.d_h, view(d_h, p, tile), p.d_model, columns);
    load_steps(shared + at.x, x, p.d_in, p, tile);
    wait_for_copies();
    __syncthreads();
    multiply<4>(shared + at.weight, at.model_ld, p.d_in, p.d_model, shared + at.x, columns,
                [&](int o, int q, float4 embedding) {
                  const auto slope = [](float a) { return silu_slope(a, sigmoid(a)); };
                  float4& d = quad_at(shared + at.d_h + o * columns.stride + 4 * q);
                  d = d * map4(embedding + splat(shared[at.bias + o]), slope);
                });
    __syncthreads();
    outer_products(&job, 1, shared, sums, columns);
    sum_columns<1>(
        p.d_model, columns,
        [&](int i, int q, float(&s)[1]) {
          s[0] += sum(quad_at(shared + at.d_h + i * columns.stride + 4 * q));
        },
        [&](int i, const float(&s)[1]) { bias_sums[i] += s[0]; });
    if (!d_x) return;
    __syncthreads();
    multiply<2>(shared + at.weight_rows, at.in_ld, p.d_model, p.d_in, shared + at.d_h, columns,
                [&](int i, int q, float4 s) { quad_at(shared + at.x + i * columns.stride + 4 * q) = s; });
    __syncthreads();
    store_steps(d_x, shared + at.x, p.d_in, p, tile);
  });
  float* const partial =
      partials + (static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x) * p.input_size();
  for (int i = threadIdx.x; i < p.input_size(); i += blockDim.x) partial[i] = sums[i];
}

/// Places in shared memory of the output layers, forward and backward.
struct OutputLayout {
  int model_ld, out_ld, norm_weight, norm_bias, hidden, hidden_bias, output, output_bias;
  int hidden_rows, output_rows;  // weights not transposed
  int h, u, act, y, d_hidden, d_u, scales, sums, total;

  __host__ __device__ OutputLayout(const EndsProblem& p, bool backward) {
    SharedLayout shared;
    const int d = p.d_model;
    model_ld = (d + 3) / 4 * 4, out_ld = (p.d_out + 3) / 4 * 4;
    norm_weight = shared.take(d), norm_bias = shared.take(d);
    hidden = shared.take(d * model_ld), hidden_bias = shared.take(d);
    output = shared.take(backward ? 0 : d * out_ld), output_bias = shared.take(p.d_out);
    hidden_rows = shared.take(backward ? d * model_ld : 0),
    output_rows = shared.take(backward ? p.d_out * model_ld : 0);
    h = shared.take(d * columns.stride), u = shared.take(d * columns.stride),
    act = shared.take(d * columns.stride);
    y = shared.take(p.d_out * columns.stride);
    d_hidden = shared.take(backward ? d * columns.stride : 0),
    d_u = shared.take(backward ? d * columns.stride : 0);
    scales = shared.take(4 * columns.quads);
    sums = shared.take(backward ? p.tail_size() : 0);
    total = shared.used;
  }
};

/// Offsets of the output layers' parameters from norm.weight on.
struct Tail {
  int norm_bias, hidden, hidden_bias, output, output_bias;
  __device__ explicit Tail(const EndsProblem& p)
      : norm_bias(p.d_model),
        hidden(2 * p.d_model),
        hidden_bias(hidden + p.d_model * p.d_model),
        output(hidden_bias + p.d_model),
        output_bias(output + p.d_out * p.d_model) {}
};

__device__ void load_output_parameters(float* shared, const OutputLayout& at, const EndsProblem& p,
                                       bool backward) {
  const float* const w = parameters_of_model(p) + p.tail;
  const Tail tail(p);
  load_padded(shared + at.norm_weight, p.d_model, w, 1, p.d_model);
  load_padded(shared + at.norm_bias, p.d_model, w + tail.norm_bias, 1, p.d_model);
  load_transposed(shared + at.hidden, at.model_ld, w + tail.hidden, p.d_model, p.d_model);
  load_padded(shared + at.hidden_bias, p.d_model, w + tail.hidden_bias, 1, p.d_model);
  load_padded(shared + at.output_bias, p.d_out, w + tail.output_bias, 1, p.d_out);
  if (backward) {
    load_padded(shared + at.hidden_rows, at.model_ld, w + tail.hidden, p.d_model, p.d_model);
    load_padded(shared + at.output_rows, at.model_ld, w + tail.output, p.d_out, p.d_model);
  } else {
    load_transposed(shared + at.output, at.out_ld, w + tail.output, p.d_out, p.d_model);
  }
}

__global__ void __launch_bounds__(threads)
    output_forward_kernel(const EndsProblem p, const float* h, float* y) {
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
    multiply<4>(shared + at.hidden, at.model_ld, p.d_model, p.d_model, shared + at.u, columns,
                [&](int o, int q, float4 sums) {
                  quad_at(shared + at.act + o * columns.stride + 4 * q) =
                      map4(sums + splat(shared[at.hidden_bias + o]), silu);
                });
    __syncthreads();
    multiply<2>(shared + at.output, at.out_ld, p.d_model, p.d_out, shared + at.act, columns,
                [&](int o, int q, float4 sums) {
                  quad_at(shared + at.y + o * columns.stride + 4 * q) =
                      sums + splat(shared[at.output_bias + o]);
                });
    __syncthreads();
    store_steps(y, shared + at.y, p.d_out, p, tile);
  });
}

__global__ void __launch_bounds__(threads)
    output_backward_kernel(const EndsProblem p, const float* h, const float* d_y, float* d_h,
                           float* partials) {
  extern __shared__ float4 shared_quads[];
  __shared__ OuterProduct jobs[2];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  const OutputLayout at(p, true);
  const Tail tail(p);
  const auto quad = [&](int rows, int r, int q) -> float4& {
    return quad_at(shared + rows + r * columns.stride + 4 * q);
  };
  float* const sums = shared + at.sums;
  load_output_parameters(shared, at, p, true);
  for (int i = threadIdx.x; i < p.tail_size(); i += blockDim.x) sums[i] = 0;
  if (threadIdx.x == 0) {
    jobs[0] = {at.d_hidden, at.u, p.d_model, p.d_model, tail.hidden, p.d_model};
    jobs[1] = {at.y, at.act, p.d_out, p.d_model, tail.output, p.d_model};
  }
  __syncthreads();
  for_each_tile(p, [&](const Tile& tile) {
    load_rows(shared + at.h, view(h, p, tile), p.d_model, columns);
    load_steps(shared + at.y, d_y, p.d_out, p, tile);
    wait_for_copies();
    __syncthreads();
    layer_norm_forward(shared + at.u, shared + at.h, shared + at.scales, shared + at.h,
                       shared + at.norm_weight, shared + at.norm_bias, p.d_model, columns);
    multiply<4>(shared + at.output_rows, at.model_ld, p.d_out, p.d_model, shared + at.y, columns,
                [&](int o, int q, float4 s) { quad(at.d_hidden, o, q) = s; });
    __syncthreads();
    multiply<4>(shared + at.hidden, at.model_ld, p.d_model, p.d_model, shared + at.u, columns,
                [&](int o, int q, float4 s) {
                  const float4 hidden = s + splat(shared[at.hidden_bias + o]);
                  quad(at.act, o, q) = map4(hidden, silu);
                  // The same thread computed this quad's sum above, or a barrier lies between.
                  quad(at.d_hidden, o, q) = quad(at.d_hidden, o, q) *
                                            map4(hidden, [](float a) { return silu_slope(a, sigmoid(a)); });
                });
    __syncthreads();
    multiply<4>(shared + at.hidden_rows, at.model_ld, p.d_model, p.d_model, shared + at.d_hidden, columns,
                [&](int o, int q, float4 s) { quad(at.d_u, o, q) = s; });
    outer_products(jobs, 2, shared, sums, columns);
    __syncthreads();
    sum_columns<3>(
        p.d_model, columns,
        [&](int i, int q, float(&s)[3]) {
          s[0] += sum(quad(at.d_u, i, q) * quad(at.h, i, q));
          s[1] += sum(quad(at.d_u, i, q));
          s[2] += sum(quad(at.d_hidden, i, q));
        },
        [&](int i, const float(&s)[3]) {
          sums[i] += s[0], sums[tail.norm_bias + i] += s[1], sums[tail.hidden_bias + i] += s[2];
        });
    sum_columns<1>(
        p.d_out, columns, [&](int i, int q, float(&s)[1]) { s[0] += sum(quad(at.y, i, q)); },
        [&](int i, const float(&s)[1]) { sums[tail.output_bias + i] += s[0]; });
    __syncthreads();
    layer_norm_backward(shared + at.d_u, nullptr, shared + at.d_u, shared + at.h, shared + at.scales,
                        shared + at.norm_weight, p.d_model, columns);
    __syncthreads();
    store_rows(view(d_h, p, tile), shared + at.d_u, p.d_model, columns);
  });
  float* const partial =
      partials + (static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x) * p.tail_size();
  for (int i = threadIdx.x; i < p.tail_size(); i += blockDim.x) partial[i] = sums[i];
}

__global__ void reduce_partials_kernel(const float* partials, int parts, int count, float* gradients,
                                       size_t stride, bool add) {
  __shared__ float of_slice[slices][32];
  const int i = blockIdx.x * 32 + threadIdx.x;
  const float* const from = partials + static_cast<size_t>(blockIdx.y) * parts * count + i;
  float total = 0;
  if (i < count)
    for (int part = threadIdx.y; part < parts; part += slices) total += from[static_cast<size_t>(part) * count];
  of_slice[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y > 0 || i >= count) return;
  float& gradient = gradients[blockIdx.y * stride + i];
  float result = add ? gradient : 0;
  for (const auto& slice : of_slice) result += slice[threadIdx.x];
  gradient = result;
}

/// Blocks of a forward pass: a tile each, or a few, so that the weights are not loaded too often.
dim3 forward_blocks(const EndsProblem& p) {
  constexpr int most = 2112;
  const int tiles = p.batch * ((p.quads + columns.length - 1) / columns.length);
  return dim3(static_cast<unsigned>(tiles < most ? tiles : most), static_cast<unsigned>(p.models));
}

template <class Kernel, class... Args>
void launch(Kernel kernel, dim3 grid, int shared_floats, cudaStream_t stream, Args... args) {
  const int bytes = shared_floats * static_cast<int>(sizeof(float));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<grid, threads, bytes, stream>>>(args...);
}

}  // namespace

std::size_t largest_end_bytes(const EndsProblem& p) {
  const int input = InputLayout(p, true).total, output = OutputLayout(p, true).total;
  return sizeof(float) * static_cast<std::size_t>(input > output ? input : output);
}

void launch_input_forward(const EndsProblem& p, const float* x, float* h, cudaStream_t stream) {
  launch(input_forward_kernel, forward_blocks(p), InputLayout(p, false).total, stream, p, x, h);
}

void launch_input_backward(const EndsProblem& p, const float* x, const float* d_h, float* d_x,
                           float* partials, cudaStream_t stream) {
  launch(input_backward_kernel, dim3(end_blocks, static_cast<unsigned>(p.models)), InputLayout(p, true).total,
         stream, p, x, d_h, d_x, partials);
}

void launch_output_forward(const EndsProblem& p, const float* h, float* y, cudaStream_t stream) {
  launch(output_forward_kernel, forward_blocks(p), OutputLayout(p, false).total, stream, p, h, y);
}

void launch_output_backward(const EndsProblem& p, const float* h, const float* d_y, float* d_h,
                            float* partials, cudaStream_t stream) {
  launch(output_backward_kernel, dim3(end_blocks, static_cast<unsigned>(p.models)),
         OutputLayout(p, true).total, stream, p, h, d_y, d_h, partials);
}

void launch_reduce_partials(const float* partials, int models, int parts, int count, float* gradients,
                            std::size_t stride, bool add, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((count + 31) / 32), static_cast<unsigned>(models));
  reduce_partials_kernel<<<grid, dim3(32, slices), 0, stream>>>(partials, parts, count, gradients, stride, add);
}

}  // namespace mac::cuda
