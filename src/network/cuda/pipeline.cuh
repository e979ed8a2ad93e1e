// Blocks of a layer as stages of a pipeline through time.
//
// Every (model, group of sequences, layer) has its own thread block, which walks through time chunk by chunk
// and keeps its recurrent state. When a chunk of its output is in device memory it raises its count of
// finished chunks; the block of the next layer waits for that. All layers so work at once, each a chunk
// behind the one it feeds on, in one launch.
//
// The sequences of a group lie one after the other in device memory, each in whole quads of steps. The block
// walks through this run of quads as if it were one sequence, and starts anew where another sequence begins:
// a chunk may hold the end of one and the beginning of the next, or several short ones. What belongs before
// the run's first sequence and after its last is done outside the walk; in kernels whose blocks have one
// sequence (Run::one) nothing else is left.
//
// A block takes its place from a ticket, and a place only waits for earlier ones: the blocks that are running
// never wait for one that has not started, however many fit on the device. The tickets of a layer follow each
// other: where the blocks don't all fit at once, those of a layer find the one before it done.
#pragma once

#include <cuda_runtime.h>

#include "network/cuda/launch_plan.hpp"

#ifdef MAC_RACECHECK
#include <cuda/barrier>
#endif

namespace mac::cuda {

struct Stage {
  int model, layer;
  int place;            // (model, group, layer)
  int sequence;         // the first of its group, numbered through all models
  int quads;            // of all sequences of its group
  int steps;            // of each; sequences of different lengths have a group each
  int* finished;        // chunks this stage has published
  const int* upstream;  // chunks the stage before it has published; null for the first

  __device__ int chunks(int length) const { return (quads + length - 1) / length; }
};

enum class Direction { forward, backward };

/// Called by all threads of the block; `shared` is one word of shared memory.
template <Run RUN, class Problem>
__device__ Stage take_stage(const Problem& p, Direction direction, int* shared) {
  if (threadIdx.x == 0) *shared = atomicAdd(p.counters, 1);
  __syncthreads();
  const int groups = RUN == Run::one ? p.batch : p.groups.count, columns = p.models * groups;
  const int ticket = *shared, depth = ticket / columns, column = ticket % columns;
  const bool forward = direction == Direction::forward;
  const int layer = forward ? depth : p.layers - 1 - depth, place = column * p.layers + layer;
  const int model = column / groups, group = column % groups;
  const int first = RUN == Run::one ? group : group * p.groups.members,
            sequences = RUN == Run::one ? 1 : min(p.groups.members, p.batch - first);
  const int steps = p.steps(first + sequences - 1);
  int* const finished = p.counters + 1 + place;
  return {model,
          layer,
          place,
          model * p.batch + first,
          (sequences - 1) * p.quads + (steps + 3) / 4,
          steps,
          finished,
          depth == 0 ? nullptr : finished + (forward ? -1 : 1)};
}

/// The sequence that a quad of a stage's run belongs to, and the quad's number in it.
template <Run RUN, class Problem>
__device__ int sequence_of(const Problem& p, const Stage& stage, int quad) {
  return RUN == Run::one ? stage.sequence : stage.sequence + quad / p.quads;
}
template <Run RUN, class Problem>
__device__ int quad_of_sequence(const Problem& p, int quad) {
  return RUN == Run::one ? quad : quad % p.quads;
}

/// A chunk of a stage's run of quads, and where sequences begin and end in it.
template <Run RUN>
struct ChunkOfRun {
  int first_quad;              // in the run
  int quads;                   // that exist
  int last_steps;              // of a sequence's last quad
  unsigned starts = 0, lasts;  // bit q: see begins(q), ends(q)

  template <class Problem>
  __device__ ChunkOfRun(const Problem& p, const Stage& stage, int number, int length)
      : first_quad(number * length),
        quads(min(length, stage.quads - first_quad)),
        last_steps((stage.steps + 3) % 4 + 1) {
    const int passed = first_quad % p.quads, left = stage.quads - first_quad;
    for (int q = passed == 0 && number > 0 ? 0 : p.quads - passed; q <= quads && q < left; q += p.quads)
      starts |= 1u << q;
    lasts = starts >> 1 | (quads == left ? 1u << (quads - 1) : 0);
  }

  /// Whether another sequence than the run's first begins at quad q, which may be the one after the chunk.
  __device__ bool begins(int q) const { return starts >> q & 1; }
  /// Whether quad q is a sequence's last.
  __device__ bool ends(int q) const { return lasts >> q & 1; }
  /// Steps of a quad that exist: four or more, unless it is a sequence's last, and none or fewer beyond that.
  __device__ int steps(int q) const { return q >= quads ? 0 : ends(q) ? last_steps : 4; }
  /// The end of quad q's sequence in the chunk, and its beginning: what lies between is of one sequence.
  __device__ int end_of_piece(int q) const {
    return static_cast<int>(
        min(static_cast<unsigned>(quads), static_cast<unsigned>(__ffs(starts & (~1u << q)) - 1)));
  }
  __device__ int start_of_piece(int q) const { return 31 - __clz((starts & ((2u << q) - 1)) | 1); }
};

template <>
struct ChunkOfRun<Run::one> {
  int first_quad, quads;
  int left;  // steps, from the chunk's first on

  template <class Problem>
  __device__ ChunkOfRun(const Problem&, const Stage& stage, int number, int length)
      : first_quad(number * length),
        quads(min(length, stage.quads - first_quad)),
        left(stage.steps - 4 * first_quad) {}

  static constexpr __device__ bool begins(int) { return false; }
  __device__ bool ends(int q) const { return steps(q) > 0 && steps(q) <= 4; }
  __device__ int steps(int q) const { return left - 4 * q; }
  __device__ int end_of_piece(int) const { return quads; }
  static constexpr __device__ int start_of_piece(int) { return 0; }
};

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

#ifdef MAC_RACECHECK
inline constexpr bool for_racecheck = true;

/// What threads of a meeting wait at in a program for compute-sanitizer's racecheck, which reports hazards at
/// barriers of some of a block's warps but follows these.
template <Meeting MEETING>
__device__ inline ::cuda::barrier<::cuda::thread_scope_block>& meeting_place() {
  using Place = ::cuda::barrier<::cuda::thread_scope_block>;
  __shared__ alignas(Place) char place[sizeof(Place)];
  return *reinterpret_cast<Place*>(place);
}
#else
inline constexpr bool for_racecheck = false;
#endif

/// Called by all threads before the roles part; a barrier of the block must follow.
__device__ inline void prepare_meetings([[maybe_unused]] int helpers) {
#ifdef MAC_RACECHECK
  if (threadIdx.x > 0) return;
  init(&meeting_place<Meeting::helpers>(), helpers);
  init(&meeting_place<Meeting::workers>(), static_cast<int>(blockDim.x) - helpers);
#endif
}

/// A barrier of `threads` threads of the block (whole warps). Those of one role reach it at the same
/// instruction; where all meet, each role does so in its own code, which only the unaligned form allows. A
/// single warp of helpers has its barrier too: with __syncwarp() the Mamba's backward pass becomes 5 % more
/// code.
template <Meeting MEETING>
__device__ inline void meet(int threads) {
  constexpr int id = static_cast<int>(MEETING);
  if constexpr (MEETING == Meeting::all) {
    asm volatile("barrier.sync %0, %1;" ::"n"(id), "r"(threads) : "memory");
  } else if (threads == 32 && (MEETING == Meeting::workers || for_racecheck)) {
    __syncwarp();
  } else {
#ifdef MAC_RACECHECK
    meeting_place<MEETING>().arrive_and_wait();
#else
    asm volatile("barrier.sync.aligned %0, %1;" ::"n"(id), "r"(threads) : "memory");
#endif
  }
}

}  // namespace mac::cuda
