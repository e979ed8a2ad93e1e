#include <algorithm>

#include "network/kinds/mamba/cuda/scan.cuh"
#include "network/kinds/mamba/cuda/segments.hpp"

namespace mac::cuda {

namespace {

constexpr int shortest = 12;        // quads of a segment: a block has its weights to fetch first
constexpr int worth_a_layer = 128;  // quads of a sequence: the launches of a layer take as long as about 80
constexpr int border_steps = 3;     // that the convolution reaches back
constexpr int passes = 2;           // over a layer's segments forward, each with its counters

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
    return data ? data + (static_cast<size_t>(sequence) * layers + layer) * s.layer_state() : nullptr;
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
constexpr int border_threads = 256;  // the first warps have a step each

__device__ const float* parameters_of(const MambaProblem& p, int segment) {
  return p.parameters + segment / p.batch * p.parameter_count + p.first_block;
}

/// States of zero before each segment, and the inputs of the convolution; a block for each segment.
__global__ void start_segments_kernel(const MambaProblem p, float* starts, LayerStates<const float> initial) {
  extern __shared__ float n[];
  const MambaSizes& s = p.sizes;
  const int segment = static_cast<int>(blockIdx.x);
  float* const start = starts + static_cast<size_t>(segment) * s.layer_state();
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

/// Takes the numbers of a sequence's state from segment to segment; a thread for each number.
struct Walk {
  const MambaProblem& p;
  int sequence, row, channel;
  int place;     // in a state
  size_t first;  // segment

  __device__ explicit Walk(const MambaProblem& problem) : p(problem) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), floats = p.sizes.layer_state();
    sequence = i / floats, place = i % floats;
    row = place / p.sizes.d_inner, channel = place % p.sizes.d_inner;
    first = static_cast<size_t>(sequence) * p.cut.segments;
  }
  /// Else the thread has nothing to do.
  __device__ bool exists() const { return sequence < p.models * p.batch / p.cut.segments; }
  /// Whether the number is an input of the convolution, not a state.
  __device__ bool in_window() const { return row < border_steps; }
  /// In the states of all segments.
  __device__ size_t at(int segment) const { return (first + segment) * p.sizes.layer_state() + place; }
  /// carried = decay · carried + from[segment] for all segments, from the last to the first if BACK; what it
  /// was before each goes to `to`.
  template <bool BACK>
  __device__ float walk(float carried, const float* from, float* to, const float* step_sums) const {
    constexpr int at_once = 16;  // loads under way
    const float* const A_log = parameters_of(p, static_cast<int>(first)) + p.offsets.A_log;
    const float A = -log2_e * expf(A_log[channel * p.sizes.d_state + row - border_steps]);
    for (int done = 0; done < p.cut.segments; done += at_once) {
      float added[at_once], steps[at_once];
      const auto segment = [&](int k) { return BACK ? p.cut.segments - 1 - done - k : done + k; };
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        if (done + k >= p.cut.segments) continue;
        added[k] = from[at(segment(k))];
        steps[k] = step_sums[(first + segment(k)) * p.sizes.d_inner + channel];
      }
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        if (done + k >= p.cut.segments) continue;
        to[at(segment(k))] = carried;
        carried = fmaf(exp2_approx(A * steps[k]), carried, added[k]);
      }
    }
    return carried;
  }
};

/// ends: after each segment, from zero. The states before each go to `starts`.
__global__ void walk_forward_kernel(const MambaProblem p, float* starts, const float* ends,
                                    const float* step_sums, LayerStates<const float> initial,
                                    LayerStates<float> final) {
  const Walk walk(p);
  if (!walk.exists()) return;
  const float* const from = initial.of(walk.sequence, p.sizes);
  float* const to = final.of(walk.sequence, p.sizes);
  const float last = walk.in_window()
                         ? ends[walk.at(p.cut.segments - 1)]
                         : walk.walk<false>(from ? from[walk.place] : 0, ends, starts, step_sums);
  if (to) to[walk.place] = last;
}

/// d_starts: the gradients before each segment, from zero after it. Those after each go to `d_ends`.
__global__ void walk_backward_kernel(const MambaProblem p, const float* d_starts, float* d_ends,
                                     const float* step_sums, LayerStates<const float> d_final,
                                     LayerStates<float> d_initial) {
  const Walk walk(p);
  if (!walk.exists()) return;
  const float* const from = d_final.of(walk.sequence, p.sizes);
  float* const to = d_initial.of(walk.sequence, p.sizes);
  const float last = from ? from[walk.place] : 0;
  if (walk.in_window()) {
    for (int k = 0; k < p.cut.segments; ++k) d_ends[walk.at(k)] = k < p.cut.segments - 1 ? 0 : last;
  } else {
    const float before = walk.walk<true>(last, d_starts, d_ends, step_sums);
    if (to) to[walk.place] = before;
  }
}

/// d_starts: the gradients of the convolution's inputs before each segment, which belong to the segment
/// before it: to h, and to the parameters' gradients of that segment's block. A block for each segment.
__global__ void join_segments_kernel(const MambaBackward p, const float* d_starts,
                                     LayerStates<float> d_initial) {
  extern __shared__ float n[];
  const MambaSizes& s = p.sizes;
  const int segment = static_cast<int>(blockIdx.x), d = s.d_model;
  const float* const d_start = d_starts + static_cast<size_t>(segment) * s.layer_state();
  if (segment % p.cut.segments == 0) {
    if (float* const to = d_initial.of(segment / p.cut.segments, s))
      for (int i = threadIdx.x; i < border_steps * s.d_inner; i += blockDim.x) to[i] = d_start[i];
    return;
  }
  const Border border(p, segment, n);
  const int step = border.step();
  const float *const w = parameters_of(p, segment), *const weight = w + p.offsets.norm_weight,
                     *const bias = w + p.offsets.norm_bias;
  float *const d_u = n + border_steps * d, *const d_x = d_u + border_steps * d;  // (step, channel)
  load(d_x, d_start, border_steps * s.d_inner);
  __syncthreads();
  if (step < border_steps) {
    float total = 0, total_normalised = 0;
    for (int i = lane_of_warp(); i < d; i += 32) {
      float sum = 0;
#pragma unroll 4
      for (int o = 0; o < s.d_inner; ++o)
        sum = fmaf(w[p.offsets.in_proj + o * d + i], d_x[step * s.d_inner + o], sum);
      d_u[step * d + i] = sum;
      const float g = __fmul_rn(weight[i], sum);  // rounded, as below: one channel has no gradient
      total += g;
      total_normalised = fmaf(g, n[step * d + i], total_normalised);
    }
    const float share = 1.0f / static_cast<float>(d), mean = sum_of_warp(total) * share,
                mean_normalised = sum_of_warp(total_normalised) * share;
    float* const d_h = p.d_h + (border.h - p.h) + 4 - border_steps + step;
    for (int i = lane_of_warp(); i < d; i += 32)
      d_h[4 * i] +=
          border.scale * (__fmul_rn(weight[i], d_u[step * d + i]) - mean - n[step * d + i] * mean_normalised);
  }
  __syncthreads();
  float* const partial = p.partials + static_cast<size_t>(segment - 1) * p.offsets.size;
  const auto sum_of_steps = [&](auto term) {
    float sum = 0;
    for (int k = 0; k < border_steps; ++k) sum += term(k);
    return sum;
  };
#pragma unroll 1  // little code: all of it is fetched for a single pass
  for (int i = threadIdx.x; i < s.d_inner * d; i += blockDim.x) {
    const int o = i / d, j = i % d;
    partial[p.offsets.in_proj + i] +=
        sum_of_steps([&](int k) { return d_x[k * s.d_inner + o] * fmaf(weight[j], n[k * d + j], bias[j]); });
  }
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    partial[p.offsets.norm_weight + i] += sum_of_steps([&](int k) { return d_u[k * d + i] * n[k * d + i]; });
    partial[p.offsets.norm_bias + i] += sum_of_steps([&](int k) { return d_u[k * d + i]; });
  }
}

/// A layer as a network of one, whose sequences are the segments.
template <class Problem>
struct LayerInSegments : Problem {
  std::size_t all;       // segments of all sequences
  float *starts, *sums;  // of SegmentStates

  LayerInSegments(const Problem& whole, Segments segments, const SegmentStates& states, int layer)
      : Problem(whole), all(static_cast<std::size_t>(whole.models) * whole.batch * segments.count) {
    const std::size_t before = layer * all;
    starts = states.starts + before * this->sizes.layer_state();
    sums = states.step_sums + before * this->sizes.d_inner;
    this->batch *= segments.count, this->layers = 1;
    this->groups = {this->batch, 1};
    this->time = 4 * segments.quads, this->quads = segments.quads;
    this->cut = {segments.count, whole.time - this->time * (segments.count - 1)};
    this->first_block += static_cast<std::size_t>(layer) * this->offsets.size;
    this->h += layer * this->h_layer_stride;
    if (this->tape) this->tape += before * this->quads * this->sizes.tape_rows() * 4;
    if (this->checkpoints) this->checkpoints += before * this->quads * this->sizes.checkpoint_size();
    this->initial_state = starts;
    this->counters += layer * passes * (1 + all);
  }
};

/// A launch with a block for each segment, with `floats` of shared memory.
template <class Kernel, class Problem, class... Args>
void launch_borders(Kernel kernel, const LayerInSegments<Problem>& p, int floats, cudaStream_t stream,
                    Args... args) {
  kernel<<<static_cast<unsigned>(p.all), border_threads, sizeof(float) * floats, stream>>>(p, args...);
}

/// A launch with a thread for each number of all sequences' states.
template <class Kernel, class... Args>
void launch_walk(Kernel kernel, const MambaProblem& p, cudaStream_t stream, Args... args) {
  const int numbers = p.models * p.batch / p.cut.segments * p.sizes.layer_state(), threads = 128;
  kernel<<<static_cast<unsigned>((numbers + threads - 1) / threads), threads, 0, stream>>>(p, args...);
}

}  // namespace

Segments cut_sequences(int batch, int layers, int quads, int slots) {
  const int count = std::min(slots / batch, quads / shortest);
  // Half as much work again, of one layer at a time, in blocks that share a multiprocessor: with twelve
  // segments for each layer a model alone on the device takes some third of the time, and five at once a
  // tenth longer.
  if (count < 12 * layers || quads < worth_a_layer * layers) return {1, quads};
  const int of_each = (quads + count - 1) / count;
  return {(quads + of_each - 1) / of_each, of_each};
}

std::size_t segment_counters(int sequences, int layers, Segments segments) {
  return static_cast<std::size_t>(layers) * passes * (1 + sequences * segments.count);
}

void forward_in_segments(const MambaForward& whole, Segments segments, const SegmentStates& states,
                         float* borders, const LaunchPlan& plan, cudaStream_t stream) {
  for (int layer = 0; layer < whole.layers; ++layer) {
    const LayerStates<const float> initial{whole.initial_state, layer, whole.layers};
    const LayerStates<float> final{whole.final_state, layer, whole.layers};
    LayerInSegments<MambaForward> second(whole, segments, states, layer), first = second;
    second.counters += 1 + second.all, second.final_state = nullptr;
    first.tape = first.checkpoints = nullptr;
    first.final_state = borders;
    first.step_sums = first.sums;
    launch_borders(start_segments_kernel, first, border_steps * first.sizes.d_model, stream, first.starts,
                   initial);
    launch_mamba_forward(first, plan, stream);
    launch_walk(walk_forward_kernel, first, stream, first.starts, borders, first.sums, initial, final);
    launch_mamba_forward(second, plan, stream);
  }
}

void backward_in_segments(const MambaBackward& whole, Segments segments, const SegmentStates& states,
                          float* borders, const LaunchPlan& plan, cudaStream_t stream) {
  for (int layer = whole.layers - 1; layer >= 0; --layer) {
    const LayerStates<const float> d_final{whole.d_final_state, layer, whole.layers};
    const LayerStates<float> d_initial{whole.d_initial_state, layer, whole.layers};
    LayerInSegments<MambaBackward> p(whole, segments, states, layer);
    float *const d_starts = borders, *const d_ends = borders + p.all * p.sizes.layer_state();
    p.d_initial_state = d_starts, p.d_final_state = d_ends;
    p.partials += layer * p.all * p.offsets.size;
    launch_mamba_states_backward(p, stream);
    launch_walk(walk_backward_kernel, p, stream, d_starts, d_ends, p.sums, d_final, d_initial);
    launch_mamba_backward(p, plan, stream);
    launch_borders(join_segments_kernel, p, border_steps * (2 * p.sizes.d_model + p.sizes.d_inner), stream,
                   d_starts, d_initial);
  }
}

}  // namespace mac::cuda
