#include <mac/paper_networks.hpp>

#include "coupling/cuda/device_equations.hpp"
#include "coupling/cuda/written_kernel.hpp"
#include "rollout/cuda/free_rollout_kernel.cuh"

namespace mac::cuda {

namespace {

struct RolloutVariant {
  void (*kernel)(RolloutRun, DeviceEquations);
  bool (*suits)(const PackedSizes&);
  std::size_t (*bytes)(const PackedSizes&);
  int group, threads;
  bool shared_weights;
};

template <class Net, int GROUP, bool SHARED_WEIGHTS>
constexpr RolloutVariant variant() {
  constexpr int threads = GROUP == 1 ? 256 : 512;
  return {free_rollout_kernel<Net, GROUP, SHARED_WEIGHTS, threads, DeviceEquations>,
          Net::suits,
          [](const PackedSizes& sizes) {
            return RolloutLayout(Net(sizes), GROUP, SHARED_WEIGHTS).shared.used * sizeof(float);
          },
          GROUP,
          threads,
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

std::optional<RolloutLaunch> choose_launch(const PackedSizes& network, int count, const SharedMemory& shared,
                                           int processors) {
  std::optional<RolloutLaunch> launch;
  for (const RolloutVariant& variant : variants) {
    if (!variant.suits(network)) continue;
    const std::size_t bytes = variant.bytes(network);
    if (bytes > shared.per_block) continue;
    if (launch && variants[launch->variant].shared_weights && !variant.shared_weights) break;
    const int groups = (count + variant.group - 1) / variant.group;
    launch = {static_cast<int>(&variant - variants), std::min(groups, processors), bytes};
    if (count > (variant.group - 1) * processors) break;
  }
  return launch;
}

KernelName own_rollout_kernel(const PackedSizes& network, const RolloutLaunch& launch) {
  const RolloutVariant& variant = variants[launch.variant];
  return own_kernel("rollout/cuda/free_rollout_kernel.cuh", "free_rollout_kernel",
                    {packed_layout(network.kind), std::to_string(variant.group),
                     argument(variant.shared_weights), std::to_string(variant.threads)});
}

void launch_rollout(const ReducedEquations& equations, const RolloutRun& run, const RolloutLaunch& launch,
                    cudaStream_t stream) {
  const RolloutVariant& variant = variants[launch.variant];
  if (const auto* const written = std::get_if<WrittenEquations>(&equations.of)) {
    const void* const kernel = written_kernel(*written, own_rollout_kernel(run.network, launch));
    allow_shared_memory(kernel, launch.bytes);
    launch_written(kernel, launch.blocks, variant.threads, launch.bytes, stream, run, NoNumbers());
    return;
  }
  allow_shared_memory(variant.kernel, launch.bytes);
  variant.kernel<<<launch.blocks, variant.threads, launch.bytes, stream>>>(run, DeviceEquations(equations));
}

}  // namespace mac::cuda
