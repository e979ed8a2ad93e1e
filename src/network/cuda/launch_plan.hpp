// How a launch of the pipeline (pipeline.cuh) cuts the work. Each kernel is compiled for a few lengths of
// chunk and numbers of threads a block; the first that fits the device is taken.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace mac::cuda {

/// The device's shared memory, in bytes.
struct SharedMemory {
  std::size_t per_block, per_multiprocessor, reserved;

  /// What a block may take if `blocks` of them are to share a multiprocessor.
  std::size_t budget(int blocks) const {
    const std::size_t share = per_multiprocessor / static_cast<std::size_t>(blocks) - reserved;
    return share < per_block ? share : per_block;
  }
};

/// What a block walks through: one sequence, or a group of several, one after the other. To ask for each quad
/// whether another sequence begins costs long sequences up to 6 %, so that kernels are compiled for either.
enum class Run { one, several };

/// Whether the device has clusters, whose blocks write into each other's shared memory.
bool has_clusters();

/// Lets a kernel's blocks take so many bytes of dynamic shared memory; Error where the device refuses.
void allow_shared_memory(const void* kernel, std::size_t bytes);
template <class... Args>
void allow_shared_memory(void (*kernel)(Args...), std::size_t bytes) {
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes);
}

struct LaunchPlan {
  int variant;  // place in the kernel's table
  int threads;
  int blocks;  // that share a multiprocessor
  Run run;
  bool shared_sums;   // backward: parameter gradients are summed in shared memory (else in device memory)
  bool tuned;         // compiled for these sizes
  std::size_t bytes;  // of shared memory
};

/// How a model's sequences are dealt out to the blocks of a layer. A block sums the parameter gradients of
/// its members, so that the order of the sums hangs on this: it does not depend on the number of models.
struct Groups {
  int count, members;  // the last group may have fewer members
};

/// One sequence a block as long as the blocks of all layers fit `slots`, else, where a block takes several,
/// as many as makes them fit.
inline Groups group_sequences(int batch, int layers, int slots, Run run) {
  if (run == Run::one) return {batch, 1};
  const int most = slots > layers ? slots / layers : 1, members = (batch + most - 1) / most;
  return {(batch + members - 1) / members, members};
}

/// Segments of a sequence, and the quads of each but the last, which may be shorter.
struct Segments {
  int count, quads;

  int all_quads() const { return count * quads; }  // that a sequence takes in memory
};

/// One compiled form of a kernel.
template <class Kernel, class Sizes>
struct Variant {
  Kernel kernel;
  std::size_t (*bytes)(const Sizes&, int sums);  // of shared memory, with room for so many gradients
  int threads;
  int blocks;  // that share a multiprocessor
  Run run;
  int units;                     // Mamba: states of a channel and thread; GRU: units it has room for
  int d_model = 0, d_state = 0;  // sizes it was compiled for; 0: any
};

/// The first variant that fits and passes `suits`; with room for `sums` parameter gradients if possible.
template <class Kernel, class Sizes, class Suits>
std::optional<LaunchPlan> choose(std::span<const Variant<Kernel, Sizes>> variants, const Sizes& sizes,
                                 int sums, const SharedMemory& memory, Suits suits) {
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const auto& v = variants[i];
    if (!suits(v)) continue;
    for (const int shared_sums : {sums, 0})
      if (const std::size_t bytes = v.bytes(sizes, shared_sums); bytes <= memory.budget(v.blocks))
        return LaunchPlan{static_cast<int>(i), v.threads,     v.blocks, v.run,
                          shared_sums > 0,     v.d_model > 0, bytes};
  }
  return std::nullopt;
}

}  // namespace mac::cuda
