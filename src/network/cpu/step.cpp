// StepEngine: packing the weights, and one step with them.
#include "network/cpu/step.hpp"

#include <mac/error.hpp>

#include "network/cpu/decay_rate.hpp"
#include "network/parameters.hpp"

namespace mac {
namespace cpu {
namespace {

/// Hands out zeroed pieces of one aligned array, each starting at a whole vector. Runs twice: first to count,
/// then to fill.
template <class T>
class Packer {
 public:
  Packer(std::size_t lanes, T* storage) : lanes_(lanes), storage_(storage) {}

  std::size_t padded(std::size_t count) const { return (count + lanes_ - 1) / lanes_ * lanes_; }
  std::size_t used() const { return used_; }

  /// rows x columns numbers read by value(row, column), rows padded
  template <class Value>
  const T* pack(std::size_t rows, std::size_t columns, const Value& value) {
    return pack_parts(rows, 1, columns,
                      [&](std::size_t r, std::size_t, std::size_t c) { return value(r, c); });
  }

  /// Rows of several parts (x and z; the gates r, z, n), each part padded: value(row, part, column).
  template <class Value>
  const T* pack_parts(std::size_t rows, std::size_t parts, std::size_t columns, const Value& value) {
    const std::size_t stride = padded(columns);
    T* const piece = storage_ ? storage_ + used_ : nullptr;
    used_ += rows * parts * stride;
    if (!piece) return nullptr;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t p = 0; p < parts; ++p)
        for (std::size_t c = 0; c < columns; ++c) piece[(r * parts + p) * stride + c] = value(r, p, c);
    return piece;
  }

  /// weight (parts·outputs, inputs), bias (parts·outputs) or null
  PackedLinear<T> linear(const T* weight, const T* bias, std::size_t inputs, std::size_t outputs,
                         std::size_t parts = 1) {
    PackedLinear<T> packed{nullptr, nullptr, inputs, parts * padded(outputs)};
    packed.weight = pack_parts(inputs, parts, outputs, [&](std::size_t i, std::size_t p, std::size_t o) {
      return weight[(p * outputs + o) * inputs + i];
    });
    if (bias)
      packed.bias = pack_parts(1, parts, outputs, [&](std::size_t, std::size_t p, std::size_t o) {
        return bias[p * outputs + o];
      });
    return packed;
  }

  const T* row(const T* values, std::size_t count) {
    return pack(1, count, [&](std::size_t, std::size_t c) { return values[c]; });
  }

 private:
  std::size_t lanes_;
  T* storage_;
  std::size_t used_ = 0;
};

template <class T>
PackedMamba<T> pack_mamba(Packer<T>& packer, const MambaParameters<const T>& w, const NetworkShape& shape) {
  const std::size_t d = shape.d_model, inner = shape.d_inner(), states = shape.d_state;
  PackedMamba<T> packed;
  packed.in_proj = packer.linear(w.in_proj, nullptr, d, inner, 2);
  packed.conv_weight = packer.pack(NetworkShape::d_conv, inner, [&](std::size_t tap, std::size_t c) {
    return w.conv_weight[c * NetworkShape::d_conv + tap];
  });
  packed.conv_bias = packer.row(w.conv_bias, inner);
  packed.x_proj = packer.linear(w.x_proj, nullptr, inner, shape.dt_rank() + 2 * states);
  packed.dt_proj = packer.linear(w.step.weight, w.step.bias, shape.dt_rank(), inner);
  packed.decay_rate = packer.pack(
      states, inner, [&](std::size_t n, std::size_t c) { return decay_rate(w.A_log[c * states + n]); });
  packed.D = packer.row(w.D, inner);
  packed.out_proj = packer.linear(w.out_proj, nullptr, inner, d);
  return packed;
}

template <class T>
void pack_all(PackedNetwork<T>& network, Packer<T>& packer, const NetworkParameters<const T>& w) {
  const NetworkShape& shape = network.shape;
  const std::size_t d = shape.d_model;
  const auto norm = [&](const NormParameters<const T>& n) {
    return PackedNorm<T>{packer.row(n.weight, d), packer.row(n.bias, d)};
  };
  network.input_proj = packer.linear(w.input_proj.weight, w.input_proj.bias, shape.d_in, d);
  network.blocks.clear();
  for (const BlockParameters<const T>& block : w.blocks) {
    PackedBlock<T> packed{norm(block.norm), {}, {}};
    if (shape.kind == LayerKind::mamba) {
      packed.mamba = pack_mamba(packer, block.mamba, shape);
    } else {
      packed.gru.input = packer.linear(block.gru.input.weight, block.gru.input.bias, d, d, 3);
      packed.gru.hidden = packer.linear(block.gru.hidden.weight, block.gru.hidden.bias, d, d, 3);
    }
    network.blocks.push_back(packed);
  }
  network.norm = norm(w.norm);
  network.hidden_proj = packer.linear(w.hidden_proj.weight, w.hidden_proj.bias, d, d);
  network.output_proj = packer.linear(w.output_proj.weight, w.output_proj.bias, d, shape.d_out);

  network.model = packer.padded(d);
  if (shape.kind == LayerKind::mamba) {
    network.inner = packer.padded(shape.d_inner());
    network.wide = 2 * network.inner;
    network.narrow = packer.padded(shape.dt_rank() + 2 * shape.d_state);
  } else {
    network.wide = 6 * network.model;
  }
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
