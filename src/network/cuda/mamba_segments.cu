#include <algorithm>

#include "network/cuda/mamba_scan.cuh"
#include "network/cuda/mamba_segments.hpp"

namespace mac::cuda {

namespace {

constexpr int shortest = 16;     // quads of a segment: a block has its weights to fetch first
constexpr int border_steps = 3;  // that the convolution reaches back

__host__ __device__ int rows_of_state(const MambaSizes& s) { return border_steps + s.d_state; }
__host__ __device__ int floats_of_state(const MambaSizes& s) { return rows_of_state(s) * s.d_inner; }

__device__ float sum_of_warp(float value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

/// A layer's states in all sequences, as the network's interface has them; `data` may be null.
template <class T>
struct LayerStates {
  T* data;
  int layer, layers;

  __device__ T* of(int sequence, const MambaSizes& s) const {
    return data ? data + (static_cast<size_t>(sequence) * layers + layer) * floats_of_state(s) : nullptr;
  }
};

/// The last steps before a segment: h, and the layer norm of it. A warp for each step.
struct Border {
  float* h;     // (d_model, 4): the quad before the segment
  float* n;     // (step, d_model): (h − μ) · scale, in shared memory
  float scale;  // of the warp's step

  __device__ Border(const MambaProblem& p, int segment, float* shared)
      : h(p.h + (static_cast<size_t>(segment) * p.quads - 1) * p.sizes.d_model * 4), n(shared), scale(0) {
    if (step() >= border_steps) return;
    const int d = p.sizes.d_model;
    const float share = 1.0f / static_cast<float>(d);
    float total = 0, squares = 0;
    for (int i = lane_of_warp(); i < d; i += 32) total += at(i);
    const float mean = sum_of_warp(total) * share;
    for (int i = lane_of_warp(); i < d; i += 32) squares = fmaf(at(i) - mean, at(i) - mean, squares);
    scale = rsqrtf(fmaf(sum_of_warp(squares), share, 1e-5f));
    for (int i = lane_of_warp(); i < d; i += 32) n[step() * d + i] = (at(i) - mean) * scale;
  }
  __device__ int step() const { return static_cast<int>(threadIdx.x / 32); }
  __device__ float& at(int i) const { return h[4 * i + 4 - border_steps + step()]; }
};
constexpr int border_threads = 32 * (border_steps + 1);

__device__ const float* parameters_of(const MambaProblem& p, int segment) {
  return p.parameters + segment / p.batch * p.parameter_count + p.first_block;
}

/// States of zero before each segment, and the inputs of the convolution; a block for each segment.
__global__ void start_segments_kernel(const MambaProblem p, float* starts, LayerStates<const float> initial) {
  extern __shared__ float n[];
  const MambaSizes& s = p.sizes;
  const int segment = static_cast<int>(blockIdx.x);
  float* const start = starts + static_cast<size_t>(segment) * floats_of_state(s);
  for (int i = threadIdx.x; i < s.d_state * s.d_inner; i += blockDim.x)
    start[border_steps * s.d_inner + i] = 0;
  if (segment % p.cut.segments == 0) {
    const float* const from = initial.of(segment / p.cut.segments, s);
    for (int i = threadIdx.x; i < border_steps * s.d_inner; i += blockDim.x) start[i] = from ? from[i] : 0;
    return;
  }
  const Border border(p, segment, n);
  __syncthreads();
  const float *const w = parameters_of(p, segment), *const weight = w + p.offsets.norm_weight,
                     *const bias = w + p.offsets.norm_bias;
  for (int i = threadIdx.x; i < border_steps * s.d_inner; i += blockDim.x) {
    const float *const of_step = n + i / s.d_inner * s.d_model, *const in_proj = w + p.offsets.in_proj +
                                                                                 i % s.d_inner * s.d_model;
    float x = 0;
    for (int k = 0; k < s.d_model; ++k) x = fmaf(in_proj[k], fmaf(weight[k], of_step[k], bias[k]), x);
    start[i] = x;
  }
}

/// A thread for each number of a sequence's state, which it takes from segment to segment.
struct Walker {
  int sequence, row, channel;
  int place;    // in a state
  bool exists;  // else the thread has nothing to do
  float A;      // log₂e · A, of a state

  __device__ explicit Walker(const MambaProblem& p) : A(0) {
    const MambaSizes& s = p.sizes;
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    sequence = i / floats_of_state(s), place = i % floats_of_state(s);
    row = place / s.d_inner, channel = place % s.d_inner;
    exists = sequence < p.models * p.batch / p.cut.segments;
    if (!exists || in_window()) return;
    const float* const A_log =
        parameters_of(p, sequence * p.cut.segments) + p.offsets.A_log + channel * s.d_state;
    A = -log2_e * expf(A_log[row - border_steps]);
  }
  /// Whether the number is an input of the convolution.
  __device__ bool in_window() const { return row < border_steps; }
};

/// ends: after each segment, from zero. The states before each go to `starts`.
__global__ void walk_forward_kernel(const MambaProblem p, float* starts, const float* ends,
                                    const float* step_sums, LayerStates<const float> initial,
                                    LayerStates<float> final) {
  const MambaSizes& s = p.sizes;
  const Walker walker(p);
  if (!walker.exists) return;
  const float* const from = initial.of(walker.sequence, s);
  float* const to = final.of(walker.sequence, s);
  const size_t first = static_cast<size_t>(walker.sequence) * p.cut.segments;
  const auto place = [&](int k) { return (first + k) * floats_of_state(s) + walker.place; };
  if (walker.in_window()) {
    if (to) to[walker.place] = ends[place(p.cut.segments - 1)];
    return;
  }
  float state = from ? from[walker.place] : 0;
#pragma unroll 8
  for (int k = 0; k < p.cut.segments; ++k) {
    starts[place(k)] = state;
    state = fmaf(exp2_approx(walker.A * step_sums[(first + k) * s.d_inner + walker.channel]), state,
                 ends[place(k)]);
  }
  if (to) to[walker.place] = state;
}

/// d_starts: the gradients before each segment, from zero after it. Those after each go to `d_ends`.
__global__ void walk_backward_kernel(const MambaProblem p, const float* d_starts, float* d_ends,
                                     const float* step_sums, LayerStates<const float> d_final,
                                     LayerStates<float> d_initial) {
  const MambaSizes& s = p.sizes;
  const Walker walker(p);
  if (!walker.exists) return;
  const float* const from = d_final.of(walker.sequence, s);
  const size_t first = static_cast<size_t>(walker.sequence) * p.cut.segments;
  const auto place = [&](int k) { return (first + k) * floats_of_state(s) + walker.place; };
  float d = from ? from[walker.place] : 0;
#pragma unroll 8
  for (int k = p.cut.segments - 1; k >= 0; --k) {
    d_ends[place(k)] = d;
    d = walker.in_window() ? 0
                           : fmaf(exp2_approx(walker.A * step_sums[(first + k) * s.d_inner + walker.channel]),
                                  d, d_starts[place(k)]);
  }
  float* const to = d_initial.of(walker.sequence, s);
  if (to && !walker.in_window()) to[walker.place] = d;
}

/// d_starts: the gradients of the convolution's inputs before each segment, which belong to the segment
/// before it: to h, and to the parameters' gradients of that segment's block. A block for each segment.
__global__ void join_segments_kernel(const MambaBackward p, const float* d_starts,
                                     LayerStates<float> d_initial) {
  extern __shared__ float n[];
  const MambaSizes& s = p.sizes;
  const int segment = static_cast<int>(blockIdx.x), d = s.d_model;
  const float* const d_x = d_starts + static_cast<size_t>(segment) * floats_of_state(s);
  if (segment % p.cut.segments == 0) {
    if (float* const to = d_initial.of(segment / p.cut.segments, s))
      for (int i = threadIdx.x; i < border_steps * s.d_inner; i += blockDim.x) to[i] = d_x[i];
    return;
  }
  const Border border(p, segment, n);
  const int step = border.step();
  const float *const w = parameters_of(p, segment), *const weight = w + p.offsets.norm_weight,
                     *const bias = w + p.offsets.norm_bias;
  float* const d_u = n + border_steps * d;  // (step, d_model)
  if (step < border_steps) {
    float total = 0, total_normalised = 0;
    for (int i = lane_of_warp(); i < d; i += 32) {
      float sum = 0;
      for (int o = 0; o < s.d_inner; ++o)
        sum = fmaf(w[p.offsets.in_proj + o * d + i], d_x[step * s.d_inner + o], sum);
      d_u[step * d + i] = sum;
      total += weight[i] * sum;
      total_normalised = fmaf(weight[i] * sum, n[step * d + i], total_normalised);
    }
    const float share = 1.0f / static_cast<float>(d), mean = sum_of_warp(total) * share,
                mean_normalised = sum_of_warp(total_normalised) * share;
    float* const d_h = p.d_h + (border.h - p.h) + 4 - border_steps + step;
    for (int i = lane_of_warp(); i < d; i += 32)
      d_h[4 * i] += border.scale * (weight[i] * d_u[step * d + i] - mean - n[step * d + i] * mean_normalised);
  }
  __syncthreads();
  float* const partial = p.partials + static_cast<size_t>(segment - 1) * p.offsets.size;
  const auto add = [&](int place, auto term) {
    float sum = 0;
    for (int k = 0; k < border_steps; ++k) sum += term(k);
    partial[place] += sum;
  };
  for (int i = threadIdx.x; i < s.d_inner * d; i += blockDim.x) {
    const int o = i / d, j = i % d;
    add(p.offsets.in_proj + i,
        [&](int k) { return d_x[k * s.d_inner + o] * fmaf(weight[j], n[k * d + j], bias[j]); });
  }
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    add(p.offsets.norm_weight + i, [&](int k) { return d_u[k * d + i] * n[k * d + i]; });
    add(p.offsets.norm_bias + i, [&](int k) { return d_u[k * d + i]; });
  }
}

/// A layer as a network of one, whose sequences are the segments. `pass` is which of the two it is.
template <class Problem>
Problem layer_in_segments(const Problem& whole, Segments segments, const SegmentStates& states, int layer,
                          int pass) {
  Problem p = whole;
  p.batch = whole.batch * segments.count, p.layers = 1;
  p.groups = {p.batch, 1};
  p.time = 4 * segments.quads, p.quads = segments.quads;
  p.cut = {segments.count, whole.time - p.time * (segments.count - 1)};
  const std::size_t all = static_cast<std::size_t>(p.models) * static_cast<std::size_t>(p.batch),
                    before = static_cast<std::size_t>(layer) * all,
                    quads = before * static_cast<std::size_t>(p.quads);
  p.first_block += static_cast<std::size_t>(layer * p.offsets.size);
  p.h += static_cast<std::size_t>(layer) * p.h_layer_stride;
  if (p.tape) p.tape += quads * static_cast<std::size_t>(4 * p.sizes.tape_rows());
  if (p.checkpoints) p.checkpoints += quads * static_cast<std::size_t>(p.sizes.checkpoint_size());
  p.initial_state = states.starts + before * static_cast<std::size_t>(floats_of_state(p.sizes));
  p.counters += static_cast<std::size_t>(2 * layer + pass) * (1 + all);
  return p;
}

/// A launch with a thread for each number of all sequences' states.
template <class Kernel, class... Args>
void launch_walk(Kernel kernel, const MambaProblem& p, cudaStream_t stream, Args... args) {
  const int numbers = p.models * p.batch / p.cut.segments * floats_of_state(p.sizes), threads = 128;
  kernel<<<static_cast<unsigned>((numbers + threads - 1) / threads), threads, 0, stream>>>(p, args...);
}

}  // namespace

Segments cut_sequences(int batch, int layers, int quads, int slots) {
  // The work of 1.7 passes over one layer at a time, in blocks of which several share a multiprocessor,
  // against one pass over all layers at once: four segments for each layer gain a third.
  const int count = std::min(slots / batch, quads / shortest);
  if (count < 4 * layers) return {1, quads};
  const int of_each = (quads + count - 1) / count;
  return {(quads + of_each - 1) / of_each, of_each};
}

std::size_t segment_counters(int sequences, int layers, Segments segments) {
  return static_cast<std::size_t>(2 * layers) * static_cast<std::size_t>(1 + sequences * segments.count);
}

void forward_in_segments(const MambaForward& whole, Segments segments, const SegmentStates& states,
                         float* borders, const LaunchPlan& plan, cudaStream_t stream) {
  for (int layer = 0; layer < whole.layers; ++layer) {
    const LayerStates<const float> initial{whole.initial_state, layer, whole.layers};
    MambaForward first = layer_in_segments(whole, segments, states, layer, 0),
                 second = layer_in_segments(whole, segments, states, layer, 1);
    const int all = first.models * first.batch;
    float* const starts = const_cast<float*>(first.initial_state);
    first.tape = first.checkpoints = nullptr;
    first.final_state = borders;
    first.step_sums = states.step_sums +
                      static_cast<std::size_t>(layer * all) * static_cast<std::size_t>(first.sizes.d_inner);
    second.final_state = nullptr;
    const std::size_t shared = sizeof(float) * static_cast<std::size_t>(border_steps * first.sizes.d_model);
    start_segments_kernel<<<static_cast<unsigned>(all), border_threads, shared, stream>>>(first, starts,
                                                                                          initial);
    launch_mamba_forward(first, plan, stream);
    launch_walk(walk_forward_kernel, first, stream, starts, borders, first.step_sums, initial,
                LayerStates<float>{whole.final_state, layer, whole.layers});
    launch_mamba_forward(second, plan, stream);
  }
}

void backward_in_segments(const MambaBackward& whole, Segments segments, const SegmentStates& states,
                          float* borders, const LaunchPlan& plan, cudaStream_t stream) {
  for (int layer = whole.layers - 1; layer >= 0; --layer) {
    const LayerStates<float> d_initial{whole.d_initial_state, layer, whole.layers};
    MambaBackward first = layer_in_segments(whole, segments, states, layer, 0),
                  second = layer_in_segments(whole, segments, states, layer, 1);
    const std::size_t all = static_cast<std::size_t>(first.models * first.batch);
    float *const d_starts = borders, *const d_ends = borders + all * static_cast<std::size_t>(
                                                                         floats_of_state(first.sizes));
    first.d_final_state = nullptr, first.states_only = true;
    second.d_final_state = d_ends;
    first.d_initial_state = second.d_initial_state = d_starts;
    second.partials += static_cast<std::size_t>(layer) * all * static_cast<std::size_t>(second.offsets.size);
    const float* const step_sums = states.step_sums + static_cast<std::size_t>(layer) * all *
                                                          static_cast<std::size_t>(first.sizes.d_inner);
    launch_mamba_backward(first, plan, stream);
    launch_walk(walk_backward_kernel, first, stream, d_starts, d_ends, step_sums,
                LayerStates<const float>{whole.d_final_state, layer, whole.layers}, d_initial);
    launch_mamba_backward(second, plan, stream);
    const std::size_t shared =
        sizeof(float) * static_cast<std::size_t>(2 * border_steps * first.sizes.d_model);
    join_segments_kernel<<<static_cast<unsigned>(all), border_threads, shared, stream>>>(second, d_starts,
                                                                                         d_initial);
  }
}

}  // namespace mac::cuda
