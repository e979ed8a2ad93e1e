#include <mac/cuda.hpp>
#include <mac/error.hpp>
#include <mac/rollout.hpp>

namespace mac {

std::unique_ptr<ClosureModel> make_device_network_closure(const Model&, const std::string&, HeldClosure,
                                                          std::shared_ptr<const System>) {
  throw Error(cuda_unavailable());
}

}  // namespace mac
