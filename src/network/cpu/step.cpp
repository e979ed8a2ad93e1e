// StepEngine: packing the weights, and one step with them.
#include "network/cpu/step.hpp"

#include <algorithm>
#include <mac/error.hpp>

#include "network/kinds/layer.hpp"
#include "network/parameters.hpp"
#include "network/reference_layers.hpp"

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
}

}  // namespace
}  // namespace cpu

template <class T>
struct StepEngine<T>::Packed {
  NetworkShape shape;
  cpu::StepKernels<T> kernels;
  std::vector<cpu::PackedNetwork<T>> members;

  std::size_t member_scratch() const { return cpu::kStepTile * members.front().scratch_size(); }

  /// Scratch of a tile beside a member's: the inputs without noise and what the network makes of them; the outputs of
  /// all but the first member.
  std::size_t tile_scratch() const {
    if (shape.deviations) return cpu::kStepTile * (shape.core().d_in + shape.core().d_out);
    return members.size() > 1 ? cpu::kStepTile * shape.d_out : 0;
  }
};

template <class T>
StepEngine<T>::StepEngine(const NetworkShape& shape, std::span<const T> parameters) {
  if (const std::size_t count = parameter_count(shape); parameters.size() != count)
    throw Error("the network has {} parameters, {} were given", count, parameters.size());
  auto packed = std::make_unique<Packed>();
  packed->shape = shape;
  packed->kernels = cpu::step_kernels<T>();
  const NetworkShape one = shape.member().core();
  const ParameterLayout layout(one);
  for (std::size_t m = 0; m < shape.members; ++m) {
    const auto view = view_parameters<const T>(one, layout, parameters.data() + m * layout.size());
    cpu::PackedNetwork<T>& network = packed->members.emplace_back();
    network.shape = one;
    network.block_state = one.state_size() / one.n_blocks;
    network.state_size = shape.state_size();
    network.lanes = packed->kernels.lanes;
    cpu::Packer<T> counter(network.lanes, nullptr);
    cpu::pack_all(network, counter, view);
    network.storage = cpu::aligned_array<T>(counter.used());
    cpu::Packer<T> packer(network.lanes, network.storage.get());
    cpu::pack_all(network, packer, view);
  }
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
  return packed_->shape;
}

template <class T>
std::size_t StepEngine<T>::scratch_size() const {
  return packed_->member_scratch() + packed_->tile_scratch();
}

template <class T>
void StepEngine<T>::step(std::size_t batch, const T* x, T* y, T* state, T* scratch) const {
  const auto& [shape, kernels, members] = *packed_;
  if (shape.deviations) {
    const std::size_t c = shape.d_out, d = shape.d_in - c;
    T* const inputs = scratch + packed_->member_scratch();
    T* const z = inputs + cpu::kStepTile * d;  // means and what deviations are made of, (tile, 2 c)
    for (std::size_t b = 0; b < batch; b += cpu::kStepTile) {
      const std::size_t count = std::min(cpu::kStepTile, batch - b);
      for (std::size_t i = 0; i < count; ++i) std::copy_n(x + (b + i) * shape.d_in, d, inputs + i * d);
      kernels.step(members.front(), count, inputs, z, state + b * state_size(), scratch);
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = 0; j < c; ++j)
          y[(b + i) * c + j] =
              z[i * 2 * c + j] + reference::softplus(z[i * 2 * c + c + j]) * x[(b + i) * shape.d_in + d + j];
    }
    return;
  }
  if (members.size() == 1) return kernels.step(members.front(), batch, x, y, state, scratch);
  // The members take turns with a tile of samples; the first leaves its output in y, the others add theirs.
  const std::size_t d_out = shape.d_out, of_member = state_size() / members.size();
  T* const other = scratch + packed_->member_scratch();
  for (std::size_t b = 0; b < batch; b += cpu::kStepTile) {
    const std::size_t count = std::min(cpu::kStepTile, batch - b);
    T* const sum = y + b * d_out;
    for (std::size_t m = 0; m < members.size(); ++m) {
      kernels.step(members[m], count, x + b * shape.d_in, m == 0 ? sum : other,
                   state + b * state_size() + m * of_member, scratch);
      for (std::size_t i = 0; m > 0 && i < count * d_out; ++i) sum[i] += other[i];
    }
  }
}

// All but the step with threads, which is defined in step_threads.cpp.
template class StepEngine<float>;
template class StepEngine<double>;

}  // namespace mac
