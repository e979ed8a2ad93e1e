// StepEngine: packing the weights, and one step with them.
#include "network/cpu/step.hpp"

#include <mac/error.hpp>

#include "network/kinds/layer.hpp"
#include "network/parameters.hpp"

namespace mac {
namespace cpu {
namespace {

template <class T>
void pack_all(PackedNetwork<T>& network, Packer<T>& packer, const NetworkParameters<const T>& w) {
  const NetworkShape& shape = network.shape;
  const std::size_t d = shape.d_model;
  const auto norm = [&](const NormParameters<const T>& n) {
    return PackedNorm<T>{packer.row(n.weight, d), packer.row(n.bias, d)};
  };
  network.input_proj = packer.linear(w.input_proj.weight, w.input_proj.bias, shape.d_in, d);
  network.norms.clear();
  for (const BlockParameters<const T>& block : w.blocks) network.norms.push_back(norm(block.norm));
  network.layers = layer_of(shape.kind).pack(packer, shape, w.blocks);
  network.norm = norm(w.norm);
  network.hidden_proj = packer.linear(w.hidden_proj.weight, w.hidden_proj.bias, d, d);
  network.output_proj = packer.linear(w.output_proj.weight, w.output_proj.bias, d, shape.d_out);
  network.model = packer.padded(d);
  network.state_size = shape.state_size();
}

}  // namespace
}  // namespace cpu

template <class T>
struct StepEngine<T>::Packed {
  cpu::StepKernels<T> kernels;
  cpu::PackedNetwork<T> network;
};

template <class T>
StepEngine<T>::StepEngine(const NetworkShape& shape, std::span<const T> parameters) {
  const ParameterLayout layout(shape);
  if (parameters.size() != layout.size())
    throw Error("the network has {} parameters, {} were given", layout.size(), parameters.size());
  const auto view = view_parameters<const T>(shape, layout, parameters.data());

  auto packed = std::make_unique<Packed>();
  packed->kernels = cpu::step_kernels<T>();
  cpu::PackedNetwork<T>& network = packed->network;
  network.shape = shape;
  network.lanes = packed->kernels.lanes;
  cpu::Packer<T> counter(network.lanes, nullptr);
  cpu::pack_all(network, counter, view);
  network.storage = cpu::aligned_array<T>(counter.used());
  cpu::Packer<T> packer(network.lanes, network.storage.get());
  cpu::pack_all(network, packer, view);
  packed_ = std::move(packed);
}

template <class T>
StepEngine<T>::~StepEngine() = default;
template <class T>
StepEngine<T>::StepEngine(StepEngine&&) noexcept = default;
template <class T>
StepEngine<T>& StepEngine<T>::operator=(StepEngine&&) noexcept = default;

template <class T>
const NetworkShape& StepEngine<T>::shape() const {
  return packed_->network.shape;
}

template <class T>
std::size_t StepEngine<T>::scratch_size() const {
  return cpu::kStepTile * packed_->network.scratch_size();
}

template <class T>
void StepEngine<T>::step(std::size_t batch, const T* x, T* y, T* state, T* scratch) const {
  packed_->kernels.step(packed_->network, batch, x, y, state, scratch);
}

// All but the step with threads, which is defined in step_threads.cpp.
template class StepEngine<float>;
template class StepEngine<double>;

}  // namespace mac
