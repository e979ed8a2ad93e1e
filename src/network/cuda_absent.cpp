// What a build without CUDA says about it.
#include <mac/cuda.hpp>
#include <mac/error.hpp>
#include <mac/rollout.hpp>

#include "network/benchmark.hpp"
#include "training/descent.hpp"

namespace mac {

bool cuda_compiled() { return false; }

std::string cuda_unavailable() {
  return "this build of mac has no CUDA engine (configure with -DMAC_CUDA=ON)";
}

std::string cuda_description() { return "no CUDA"; }

std::unique_ptr<SequenceEngine<float>> make_cuda_engine(const NetworkShape&) {
  throw Error(cuda_unavailable());
}

std::unique_ptr<ClosureModel> make_device_network_closure(const Model&, const std::string&, HeldClosure) {
  throw Error(cuda_unavailable());
}

DeviceTiming time_training_on_device(const System&, const NetworkShape&, const TrainingWork&) {
  throw Error(cuda_unavailable());
}
DeviceTiming time_step_on_device(const System&, const NetworkShape&, std::size_t) {
  throw Error(cuda_unavailable());
}

bool descends_on_device(const StagePlan&, const System&) { return false; }

std::unique_ptr<Descent<float>> make_device_descent(const DescentPlan&, const NetworkShape&,
                                                    std::span<const DescentModel>) {
  throw Error(cuda_unavailable());
}

}  // namespace mac
