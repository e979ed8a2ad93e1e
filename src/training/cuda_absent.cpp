#include <mac/cuda.hpp>
#include <mac/error.hpp>

#include "training/descent.hpp"

namespace mac {

bool descends_on_device(const StagePlan&, const System&, const InputMap&) { return false; }

std::string uncompiled_equations(const System&) { return {}; }

std::unique_ptr<Descent<float>> make_device_descent(const DescentPlan&, const NetworkShape&,
                                                    std::span<const DescentModel>) {
  throw Error(cuda_unavailable());
}

}  // namespace mac
