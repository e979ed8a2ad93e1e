// Backward pass of the Mamba layers. One block is one stage of the pipeline (pipeline.cuh), which here runs
// from the last layer to the first and from the last chunk of time to the first. The tape holds x, z,
// x_proj's output and the states before each quad of steps; everything else is recomputed.
//
// A warp owns a slab of 16 channels, within which everything stays that concerns single channels
// (backward_slab.cuh). Helper warps do the rest, a chunk behind or ahead (backward_helper.cuh):
//
//   slabs                                    helpers                  (a barrier after each line)
//   d_h to scan (c)                          in_proj, norm (c + 1), fetch c − 1
//   dB, dC (c)                               dt (c)
//   x_proj to dx (c), in_proj's gradient     out_proj's and x_proj's gradients (c)
//
// One helper warp sums its weight gradients in registers. Two take in_proj's gradient as well, after in_proj,
// and v and Δ of the chunk that they have fetched. Where registers do not suffice the sums are in memory.
//
// Each block sums the parameter gradients of its own sequences in a fixed order; reduce_partials adds up the
// blocks.
#include <array>

#include "network/cuda/tuned_networks.hpp"
#include "network/kinds/mamba/cuda/backward_helper.cuh"
#include "network/kinds/mamba/cuda/backward_slab.cuh"

namespace mac::cuda {

namespace {

using namespace backward;

constexpr int ticket_floats = 4;  // that the kernel takes beside its Layout

template <class B>
__device__ void load_parameters(const B& b) {
  const auto& s = b.s;
  const MambaOffsets& from = b.problem.offsets;
  const float* const w = b.parameters();
  load_tiles(b.shared + b.at.out_proj, s.d_inner, s.d_model,
             [&](int channel, int o) { return w[from.out_proj + o * s.d_inner + channel]; });
  load_tiles(b.shared + b.at.x_proj, s.d_inner, s.projected(), [&](int channel, int o) {
    const int r = projected_row(b.problem.sizes, o);
    return r < 0 ? 0.0f : w[from.x_proj + r * s.d_inner + channel];
  });
  load_tiles<8>(b.shared + b.at.in_proj, s.d_model, 2 * s.d_inner,
                [&](int i, int o) { return w[from.in_proj + o * s.d_model + i]; });
  load_small_parameters(b.shared, b.at, s, w, from);
  fill(b.shared + b.at.d_window, 4 * s.d_inner, 0);
  // Rows of channels and sums of quads that don't exist stay zeros.
  fill(b.shared + b.at.v, b.at.scan_sums - b.at.v, 0);
  fill(b.shared + b.at.scan_sums, s.slabs() * b.columns.quads * 32 * s.states_per_thread, 0);
  fill(b.shared + b.at.d_norm_weight, s.d_model, 0), fill(b.shared + b.at.d_norm_bias, s.d_model, 0);
  fill(b.gradients, b.gradient_at.total, 0);
}

/// What was summed in memory.
template <class B>
__device__ void write_gradients(const B& b) {
  const auto& s = b.s;
  const MambaOffsets& of = b.problem.offsets;
  if constexpr (B::holders == 0) {
    for_each_sum(
        b.gradients + b.gradient_at.out_proj, s.d_inner, s.d_model,
        [&](int channel, int o, float sum) { b.partial[of.out_proj + o * s.d_inner + channel] = sum; });
    for_each_sum(b.gradients + b.gradient_at.x_proj, s.d_inner, s.projected(),
                 [&](int channel, int o, float sum) {
                   if (const int r = projected_row(b.problem.sizes, o); r >= 0)
                     b.partial[of.x_proj + r * s.d_inner + channel] = sum;
                 });
  }
  if constexpr (B::holders < 2) {
    for_each_sum(b.gradients + b.gradient_at.in_proj_x, s.d_inner, s.d_model,
                 [&](int o, int i, float sum) { b.partial[of.in_proj + o * s.d_model + i] = sum; });
    for_each_sum(b.gradients + b.gradient_at.in_proj_z, s.d_inner, s.d_model, [&](int o, int i, float sum) {
      b.partial[of.in_proj + (s.d_inner + o) * s.d_model + i] = sum;
    });
  }
  for (int i = threadIdx.x; i < s.d_model; i += blockDim.x) {
    b.partial[of.norm_weight + i] = b.shared[b.at.d_norm_weight + i];
    b.partial[of.norm_bias + i] = b.shared[b.at.d_norm_bias + i];
  }
}

template <class Sizes, class C, int THREADS, int BLOCKS, bool OVERLAP, Run RUN>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    mamba_backward_kernel(const MambaBackward problem, bool shared_gradients) {
  extern __shared__ float4 shared_quads[];
  __shared__ int shared_ticket;
  using B = Block<C, Sizes, THREADS / 32, OVERLAP, RUN>;
  const Stage stage = take_stage<RUN>(problem, Direction::backward, &shared_ticket);
  const Sizes sizes(problem.sizes);
  const GradientLayout gradient_at(sizes, B::holders);
  B b{problem,
      sizes,
      Layout(sizes, C{}, OVERLAP, B::holders, shared_gradients ? gradient_at.total : 0),
      gradient_at,
      reinterpret_cast<float*>(shared_quads),
      stage,
      nullptr,
      nullptr};
  const size_t place = static_cast<size_t>(stage.place);
  b.partial = problem.partials + place * problem.offsets.size;
  b.gradients = shared_gradients ? b.shared + b.at.gradients : problem.gradients + place * gradient_at.total;
  prepare_meetings(b.helpers().threads);
  load_parameters(b);
  __syncthreads();
  if (b.warp() < sizes.slabs())
    walk_slab(b);
  else
    walk_helper(b);
  __syncthreads();
  write_gradients(b);
}

using BackwardVariant = Variant<void (*)(MambaBackward, bool), MambaSizes>;

template <class Sizes, int LENGTH, int THREADS, int BLOCKS, Run RUN, bool OVERLAP>
constexpr BackwardVariant variant(int d_model = 0, int d_state = 0) {
  using C = TimeColumns<LENGTH>;
  static_assert(LENGTH % 2 == 0);
  const auto bytes = [](const MambaSizes& sizes, int shared_gradients) {
    constexpr int holders = warps_that_hold<Sizes, THREADS / 32>();
    const Layout at(sizes, C{}, OVERLAP, holders,
                    shared_gradients ? GradientLayout(sizes, holders).total : 0);
    return sizeof(float) * static_cast<std::size_t>(at.total + ticket_floats);
  };
  return {mamba_backward_kernel<Sizes, C, THREADS, BLOCKS, OVERLAP, RUN>,
          bytes,
          THREADS,
          BLOCKS,
          RUN,
          Sizes::states_per_thread,
          d_model,
          d_state};
}
/// Blocks of a multiprocessor hide each other's latencies. All layers of a batch of 96 run at once on the 132
/// multiprocessors of an H200: three blocks on each for four layers (Burgers) or three (power grid), two for
/// two layers (KdV).
constexpr Tuning tunings[] = {{"burgers", 4, 128, 3, Run::one},
                              {"kdv", 8, 128, 2, Run::one},
                              {"power_grid", 8, 128, 3, Run::one},
                              {"lorenz96", 4, 384, 1, Run::several, false}};

template <std::size_t I>
constexpr BackwardVariant tuned() {
  constexpr PaperNetwork network = tuned_network(LayerKind::mamba, I);
  constexpr int d_model = network.shape.d_model, d_state = network.shape.d_state;
  constexpr Tuning t = tuning_for(tunings, network.system);
  return variant<FixedMambaSizes<d_model, d_state>, t.length, t.threads, t.blocks, t.run, t.overlap>(d_model,
                                                                                                     d_state);
}
template <std::size_t... I>
constexpr auto all_variants(std::index_sequence<I...>) {
  return std::to_array<BackwardVariant>({tuned<I>()...,
                                         variant<AnyMambaSizes<4>, 4, 128, 3, Run::several, true>(),
                                         variant<AnyMambaSizes<4>, 4, 384, 1, Run::several, true>(),
                                         variant<AnyMambaSizes<4>, 2, 384, 1, Run::several, false>()});
}
const auto variants = all_variants(TunedNetworks<LayerKind::mamba>());

}  // namespace

std::optional<LaunchPlan> plan_mamba_backward(const MambaSizes& sizes, const SharedMemory& memory) {
  return choose(std::span<const BackwardVariant>(variants), sizes, 1, memory, [&](const BackwardVariant& v) {
    return suits(v, sizes) && sizes.slabs() < v.threads / 32 && sizes.rank <= most_ranks;
  });
}

std::size_t mamba_gradient_floats(const MambaSizes& sizes) {
  return static_cast<std::size_t>(GradientLayout(sizes, 0).total);
}

void launch_mamba_backward(const MambaBackward& problem, const LaunchPlan& plan, cudaStream_t stream) {
  const auto kernel = variants[plan.variant].kernel;
  allow_shared_memory(kernel, plan.bytes);
  kernel<<<problem.models * problem.groups.count * problem.layers, plan.threads, plan.bytes, stream>>>(
      problem, plan.shared_sums);
}

}  // namespace mac::cuda
