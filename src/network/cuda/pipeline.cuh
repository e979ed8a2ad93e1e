// Blocks of a layer as stages of a pipeline through time.
//
// Every (model, sample, layer) has its own thread block, which walks through time chunk by chunk
// and keeps its recurrent state. When a chunk of its output is in device memory it raises its count of
// finished chunks; the block of the next layer waits for that. All layers so work at once, each a chunk
// behind the one it feeds on, in one launch.
//
// A block takes its place from a ticket, and a place only waits for earlier ones: the blocks that are running
// never wait for one that has not started, however many fit on the device. The tickets of a layer follow each
// other: where the blocks don't all fit at once, those of a layer find the one before it done.
#pragma once

#include <cuda_runtime.h>

namespace mac::cuda {

struct Stage {
  int model, sample, layer;
  int* finished;        // chunks this stage has published
  const int* upstream;  // chunks the stage before it has published; null for the first
};

/// The device memory that the blocks of a launch coordinate through; zero before the launch.
struct PipelineCounters {
  int* ticket;
  int* finished;  // (model, sample, layer)
};

enum class Direction { forward, backward };

/// Called by all threads of the block; `shared` is one word of shared memory.
__device__ inline Stage take_stage(PipelineCounters counters, int batch, int layers, Direction direction,
                                   int* shared) {
  if (threadIdx.x == 0) *shared = atomicAdd(counters.ticket, 1);
  __syncthreads();
  const int columns = static_cast<int>(gridDim.x) / layers;
  const int ticket = *shared, depth = ticket / columns, column = ticket % columns;
  const bool forward = direction == Direction::forward;
  const int layer = forward ? depth : layers - 1 - depth;
  int* const finished = counters.finished + column * layers + layer;
  return {column / batch, column % batch, layer, finished,
          depth == 0 ? nullptr : finished + (forward ? -1 : 1)};
}

/// Returns when the upstream stage has published more than `chunk` chunks; `seen` is how many it was last
/// seen to have. For one thread; a barrier must follow.
__device__ inline void wait_for_upstream(const Stage& stage, int chunk, int& seen) {
  if (!stage.upstream) return;
  while (seen <= chunk) {
    int finished;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(finished) : "l"(stage.upstream) : "memory");
    seen = finished;
    if (seen <= chunk) __nanosleep(40);
  }
}

/// Says that `count` chunks are in device memory. For one thread, after a barrier that follows the writes:
/// the release covers what other threads wrote before it.
__device__ inline void publish_to_downstream(const Stage& stage, int count) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(stage.finished), "r"(count) : "memory");
}

/// The barriers of blocks whose warps have roles. Number 0 is __syncthreads(), for where all threads pass the
/// same instruction.
enum class Meeting { all = 1, helpers = 2, workers = 3 };  // workers: the warps that aren't helpers

/// A barrier of `threads` threads of the block (whole warps). Those of one role reach it at the same
/// instruction; where all meet, each role does so in its own code, which only the unaligned form allows.
template <Meeting MEETING>
__device__ inline void meet(int threads) {
  constexpr int id = static_cast<int>(MEETING);
  if constexpr (MEETING == Meeting::all)
    asm volatile("barrier.sync %0, %1;" ::"n"(id), "r"(threads) : "memory");
  else
    asm volatile("barrier.sync.aligned %0, %1;" ::"n"(id), "r"(threads) : "memory");
}

}  // namespace mac::cuda
