// The kernels of rollouts: which are compiled with the program, and which of them a rollout takes.
#include <mac/paper_networks.hpp>

#include "coupling/cuda/device_equations.hpp"
#include "coupling/cuda/written_kernel.hpp"
#include "rollout/cuda/free_rollout_kernel.cuh"

namespace mac::cuda {

namespace {

struct RolloutVariant {
  void (*kernel)(RolloutRun, DeviceEquations);
  bool (*suits)(const PackedSizes&);
  std::size_t (*bytes)(const PackedSizes&, int d);
  int (*threads)(const PackedSizes&);  // as many as have work in the widest phases, as far as registers go
  int group, most_threads;
  bool shared_weights;
};

template <class Net, int GROUP, bool SHARED_WEIGHTS>
constexpr RolloutVariant variant() {
  constexpr int most_threads = GROUP == 1 ? 256 : GROUP == 4 ? 512 : 576;
  return {free_rollout_kernel<Net, GROUP, SHARED_WEIGHTS, most_threads, DeviceEquations>,
          Net::suits,
          [](const PackedSizes& sizes, int d) {
            return RolloutLayout(Net(sizes), d, GROUP, SHARED_WEIGHTS).shared.used * sizeof(float);
          },
          [](const PackedSizes& sizes) {
            const int busy = Net::Layer::lanes(Net(sizes)) * (GROUP / tile_of(GROUP));
            return std::clamp(round_up(busy, 32), 128, int{most_threads});
          },
          GROUP,
          most_threads,
          SHARED_WEIGHTS};
}
using Mamba = PackedLayout<mamba::StepLayer, AnyPackedSizes>;
using Gru = PackedLayout<gru::StepLayer, AnyPackedSizes>;
constexpr NetworkShape burgers_shape = find_paper_network("burgers", LayerKind::mamba)->shape;
using Burgers = PackedLayout<mamba::StepLayer,
                             FixedPackedSizes<burgers_shape.d_in, burgers_shape.d_out, burgers_shape.d_model,
                                              burgers_shape.n_blocks, burgers_shape.d_state>>;

/// From large groups to small ones; the first of several with equal groups is taken.
const RolloutVariant variants[] = {
    variant<Burgers, 12, true>(), variant<Mamba, 12, true>(), variant<Gru, 12, true>(),
    variant<Mamba, 4, true>(),    variant<Gru, 4, true>(),    variant<Burgers, 1, true>(),
    variant<Mamba, 1, true>(),    variant<Gru, 1, true>(),    variant<Mamba, 4, false>(),
    variant<Gru, 4, false>(),     variant<Mamba, 1, false>(), variant<Gru, 1, false>()};

}  // namespace

std::optional<RolloutLaunch> choose_launch(const PackedSizes& network, int d, int count,
                                           const SharedMemory& shared, int processors) {
  std::optional<RolloutLaunch> launch;
  int fewest = 0;
  for (const RolloutVariant& variant : variants) {
    if (!variant.suits(network)) continue;
    const std::size_t bytes = variant.bytes(network, d);
    if (bytes > shared.per_block) continue;
    const RolloutVariant* const before = launch ? &variants[launch->variant] : nullptr;
    if (before && before->shared_weights && !variant.shared_weights) break;
    const int groups = (count + variant.group - 1) / variant.group,
              rounds = (groups + processors - 1) / processors;
    if (before && (rounds > fewest || variant.group == before->group)) continue;
    fewest = rounds;
    launch = {static_cast<int>(&variant - variants), std::min(groups, processors), variant.threads(network),
              bytes};
  }
  return launch;
}

KernelName own_rollout_kernel(const PackedSizes& network, const RolloutLaunch& launch) {
  const RolloutVariant& variant = variants[launch.variant];
  return own_kernel("rollout/cuda/free_rollout_kernel.cuh", "free_rollout_kernel",
                    {packed_layout(network.kind), std::to_string(variant.group),
                     argument(variant.shared_weights), std::to_string(variant.most_threads)});
}

void launch_rollout(const ReducedEquations& equations, const RolloutRun& run, const RolloutLaunch& launch,
                    cudaStream_t stream) {
  const RolloutVariant& variant = variants[launch.variant];
  if (const auto* const written = std::get_if<WrittenEquations>(&equations.of)) {
    const void* const kernel = written_kernel(*written, own_rollout_kernel(run.network, launch));
    allow_shared_memory(kernel, launch.bytes);
    launch_written(kernel, launch.blocks, launch.threads, launch.bytes, stream, run, NoNumbers());
    return;
  }
  allow_shared_memory(variant.kernel, launch.bytes);
  variant.kernel<<<launch.blocks, launch.threads, launch.bytes, stream>>>(run, DeviceEquations(equations));
}

}  // namespace mac::cuda
