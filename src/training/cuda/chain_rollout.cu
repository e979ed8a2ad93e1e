#include <mac/paper_networks.hpp>

#include "coupling/cuda/device_equations.hpp"
#include "coupling/cuda/written_kernel.hpp"
#include "network/selective/decay_rate.hpp"
#include "training/cuda/chain_kernels.cuh"

namespace mac::cuda {

namespace {

constexpr int threads = chain_threads;

__global__ void pack_kernel(const float* parameters, std::size_t parameter_count, const int* places,
                            int count, float* packed) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const float* const of_model = parameters + blockIdx.y * parameter_count;
  const int place = places[i];
  packed[static_cast<std::size_t>(blockIdx.y) * count + i] =
      place >= 0 ? of_model[place] : selective::decay_rate(of_model[~place]);
}

struct ChainVariant {
  void (*kernel)(ChainRollout, DeviceEquations);
  bool (*suits)(const PackedSizes&);
  std::size_t (*bytes)(const PackedSizes&);
  bool shared_weights, shared_tape;
};

template <class Net, bool SHARED_WEIGHTS>
constexpr ChainVariant forward() {
  return {chains_kernel<Net, SHARED_WEIGHTS, DeviceEquations>, Net::suits,
          [](const PackedSizes& sizes) {
            return ForwardLayout(Net(sizes), SHARED_WEIGHTS).shared.used * sizeof(float);
          },
          SHARED_WEIGHTS, false};
}
template <class Net, bool SHARED_WEIGHTS, bool SHARED_TAPE>
constexpr ChainVariant backward() {
  return {chains_back_kernel<Net, SHARED_WEIGHTS, SHARED_TAPE, DeviceEquations>, Net::suits,
          [](const PackedSizes& sizes) {
            return BackwardLayout(Net(sizes), SHARED_WEIGHTS, SHARED_TAPE).shared.used * sizeof(float);
          },
          SHARED_WEIGHTS, SHARED_TAPE};
}

using Mamba = PackedLayout<mamba::StepLayer, AnyPackedSizes>;
using Gru = PackedLayout<gru::StepLayer, AnyPackedSizes>;
constexpr NetworkShape burgers_shape = find_paper_network("burgers", LayerKind::mamba)->shape;
using Burgers = PackedLayout<mamba::StepLayer,
                             FixedPackedSizes<burgers_shape.d_in, burgers_shape.d_out, burgers_shape.d_model,
                                              burgers_shape.n_blocks, burgers_shape.d_state>>;

/// The first that fits is taken.
const ChainVariant forward_variants[] = {forward<Burgers, true>(), forward<Mamba, true>(),
                                         forward<Gru, true>(), forward<Mamba, false>(),
                                         forward<Gru, false>()};
const ChainVariant backward_variants[] = {backward<Burgers, true, true>(), backward<Mamba, true, true>(),
                                          backward<Gru, true, true>(),     backward<Mamba, false, true>(),
                                          backward<Gru, false, true>(),    backward<Mamba, false, false>(),
                                          backward<Gru, false, false>()};

template <std::size_t COUNT>
std::optional<int> first_fitting(const ChainVariant (&variants)[COUNT], const PackedSizes& network,
                                 const SharedMemory& shared) {
  for (std::size_t i = 0; i < COUNT; ++i)
    if (variants[i].suits(network) && variants[i].bytes(network) <= shared.per_block)
      return static_cast<int>(i);
  return std::nullopt;
}

void launch(const ReducedEquations& equations, const ChainVariant& variant, const KernelName& own,
            std::size_t bytes, const ChainRollout& run, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(run.problem.chains());
  if (const auto* const written = std::get_if<WrittenEquations>(&equations.of)) {
    const void* const kernel = written_kernel(*written, own);
    allow_shared_memory(kernel, bytes);
    launch_written(kernel, blocks, threads, bytes, stream, run, NoNumbers());
    return;
  }
  allow_shared_memory(variant.kernel, bytes);
  variant.kernel<<<blocks, threads, bytes, stream>>>(run, DeviceEquations(equations));
}

}  // namespace

std::optional<ChainLaunch> choose_chain_launch(const PackedSizes& network, const SharedMemory& shared,
                                               int processors) {
  const auto forward = first_fitting(forward_variants, network, shared),
             backward = first_fitting(backward_variants, network, shared);
  if (!forward || !backward) return std::nullopt;
  const ChainVariant &there = forward_variants[*forward], &back = backward_variants[*backward];
  // On an H200 the engine catches up at 2,000 chains of Burgers' networks, at 300 to 500 of those for Lorenz '96.
  const int waves = there.shared_weights && back.shared_weights ? 16 : 2;
  return ChainLaunch{*forward, *backward, there.bytes(network), back.bytes(network),
                     static_cast<std::size_t>(waves * processors)};
}

std::size_t tape_numbers(const PackedSizes& network, std::size_t steps) {
  const int rows = network.kind == LayerKind::mamba ? tape_rows(Mamba(network)) : tape_rows(Gru(network));
  return static_cast<std::size_t>(rows) * (steps - 1);
}

KernelName own_chains_kernel(const PackedSizes& network, const ChainLaunch& at) {
  return own_kernel("training/cuda/chain_kernels.cuh", "chains_kernel",
                    {packed_layout(network.kind), argument(forward_variants[at.forward].shared_weights)});
}
KernelName own_chains_back_kernel(const PackedSizes& network, const ChainLaunch& at) {
  const ChainVariant& variant = backward_variants[at.backward];
  return own_kernel(
      "training/cuda/chain_kernels.cuh", "chains_back_kernel",
      {packed_layout(network.kind), argument(variant.shared_weights), argument(variant.shared_tape)});
}

void launch_chains(const ReducedEquations& equations, const ChainRollout& run, const ChainLaunch& at,
                   cudaStream_t stream) {
  launch(equations, forward_variants[at.forward], own_chains_kernel(run.network, at), at.forward_bytes, run,
         stream);
}
void launch_chains_back(const ReducedEquations& equations, const ChainRollout& run, const ChainLaunch& at,
                        cudaStream_t stream) {
  launch(equations, backward_variants[at.backward], own_chains_back_kernel(run.network, at),
         at.backward_bytes, run, stream);
}

void launch_pack(const float* parameters, std::size_t parameter_count, const int* places, int count,
                 int models, float* packed, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((count + threads - 1) / threads), static_cast<unsigned>(models));
  pack_kernel<<<grid, threads, 0, stream>>>(parameters, parameter_count, places, count, packed);
}

}  // namespace mac::cuda
