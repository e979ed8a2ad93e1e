#include "network/cuda/device_network.hpp"

#include <cstdlib>
#include <string_view>

#include "network/cuda/fused_network.hpp"
#include "network/cuda/general/general_network.hpp"

namespace mac::cuda {

namespace {

/// The widest networks for which the fused kernels of any size are faster than the general path.
std::size_t widest_fused(LayerKind kind) { return kind == LayerKind::mamba ? 48 : 64; }

/// MAC_CUDA_KERNELS=fused or general: what the environment asks for, to compare.
Kernels asked(Kernels kernels) {
  const char* const named = std::getenv("MAC_CUDA_KERNELS");
  if (kernels != Kernels::fastest || !named) return kernels;
  const std::string_view name = named;
  if (name == "fused") return Kernels::fused;
  if (name == "general") return Kernels::general;
  throw UsageError("the environment's MAC_CUDA_KERNELS is '{}': expected fused or general", name);
}

template <class T>
struct Choice {
  KernelsTaken kernels;
  std::unique_ptr<NetworkPath<T>> path;
};

template <class T>
Choice<T> general_path(const NetworkShape& shape, std::size_t models) {
  return {KernelsTaken::general, std::make_unique<GeneralNetwork<T>>(shape, models)};
}

Choice<float> choose_float_path(const NetworkShape& shape, std::size_t models, Kernels kernels) {
  if (kernels != Kernels::general)
    if (auto blocks = make_device_blocks(shape, models)) {
      const bool tuned = blocks->forward_plan().tuned && blocks->backward_plan().tuned;
      auto fused = std::make_unique<FusedNetwork>(shape, models, std::move(blocks));
      if (fused->fits() &&
          (tuned || kernels == Kernels::fused || shape.d_model <= widest_fused(shape.kind) || !has_cublas()))
        return {tuned ? KernelsTaken::tuned : KernelsTaken::fused, std::move(fused)};
    }
  if (kernels == Kernels::fused)
    throw Error("the fused CUDA kernels have no room for a {} network with d_model {} and d_state {}",
                to_string(shape.kind), shape.d_model, shape.d_state);
  return general_path<float>(shape, models);
}

template <class T>
Choice<T> choose_path(const NetworkShape& shape, std::size_t models, Kernels kernels) {
  if (shape.members > 1) refuse_ensemble();
  if constexpr (std::is_same_v<T, float>) return choose_float_path(shape, models, kernels);
  if (kernels == Kernels::fused) throw Error("the fused CUDA kernels compute in float32 alone");
  return general_path<T>(shape, models);
}

}  // namespace

template <class T>
BasicDeviceNetwork<T>::BasicDeviceNetwork(const NetworkShape& shape, std::size_t models, Kernels kernels)
    : shape_(shape), models_(models), parameter_count_(mac::parameter_count(shape)) {
  auto [taken, path] = choose_path<T>(shape, models, asked(kernels));
  kernels_ = taken, path_ = std::move(path);
}

template <class T>
const char* BasicDeviceNetwork<T>::kernels() const {
  switch (kernels_) {
    case KernelsTaken::tuned:
      return "tuned";
    case KernelsTaken::fused:
      return "fused";
    case KernelsTaken::general:
      return "general";
  }
  throw Error("no kernels have the number {}", static_cast<int>(kernels_));
}

bool may_take_general_path() { return asked(Kernels::fastest) == Kernels::fastest && has_cublas(); }

Kernels kernels_for_single_steps(std::size_t sequences) {
  constexpr std::size_t many = 4000;  // whose work hides the launches of the general path, some forty a block
  return sequences >= many && may_take_general_path() ? Kernels::general : Kernels::fastest;
}

template class BasicDeviceNetwork<float>;
template class BasicDeviceNetwork<double>;

}  // namespace mac::cuda
