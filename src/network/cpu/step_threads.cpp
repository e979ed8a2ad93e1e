// StepEngine with scratch space of its own, and with the samples of a batch shared among threads. Apart from
// step.cpp because the runtime library has neither.
#include <algorithm>
#include <mac/network.hpp>

#include "network/cpu/step.hpp"
#include "parallel/parallel_for.hpp"

namespace mac {

namespace {

/// Scratch space of the calling thread; grows on a thread's first step of a larger network.
template <class T>
T* thread_scratch(std::size_t size) {
  thread_local cpu::AlignedArray<T> scratch;
  thread_local std::size_t capacity = 0;
  if (capacity < size) {
    scratch = cpu::aligned_array<T>(size);
    capacity = size;
  }
  return scratch.get();
}

}  // namespace

template <class T>
void StepEngine<T>::step(std::size_t batch, const T* x, T* y, T* state, int threads) const {
  const auto run = [&](std::size_t begin, std::size_t end) {
    step(end - begin, x + begin * shape().d_in, y + begin * shape().d_out, state + begin * state_size(),
         thread_scratch<T>(scratch_size()));
  };
  const std::size_t tiles = (batch + cpu::kStepTile - 1) / cpu::kStepTile;
  const std::size_t parts = std::min(tiles, static_cast<std::size_t>(std::max(threads, 1)));
  if (parts <= 1) return run(0, batch);
  parallel_for(parts, threads, [&](std::size_t part, std::size_t) {
    run(std::min(batch, tiles * part / parts * cpu::kStepTile),
        std::min(batch, tiles * (part + 1) / parts * cpu::kStepTile));
  });
}

template void StepEngine<float>::step(std::size_t, const float*, float*, float*, int) const;
template void StepEngine<double>::step(std::size_t, const double*, double*, double*, int) const;

}  // namespace mac
