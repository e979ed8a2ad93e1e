#include <mac/cuda.hpp>
#include <mac/error.hpp>

#include "bench/benchmark.hpp"

namespace mac {

DeviceTiming time_training_on_device(const System&, const NetworkShape&, const TrainingWork&) {
  throw Error(cuda_unavailable());
}

DeviceTiming time_double_passes_on_device(const NetworkShape&, SequenceDims) {
  throw Error(cuda_unavailable());
}

DeviceTiming time_step_on_device(const System&, const NetworkShape&, std::size_t) {
  throw Error(cuda_unavailable());
}

}  // namespace mac
