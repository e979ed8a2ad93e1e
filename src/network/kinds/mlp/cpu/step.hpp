// A layer without memory packed for steps.
#pragma once

#include "network/cpu/packer.hpp"
#include "network/cpu/step_blocks.hpp"
#include "network/kinds/mlp/layer.hpp"

namespace mac::mlp {

template <class T>
struct Packed;
template <class T>
using StepKernels = cpu::StepLayerKernels<T, Packed<T>>;
/// Those for this machine.
template <class T>
StepKernels<T> step_kernels();

template <class T>
struct Packed {
  cpu::PackedLinear<T> up, down;

  Packed(cpu::Packer<T>& packer, const Sizes& s, const Parameters<const T>& w)
      : up(packer.linear(w.up.weight, w.up.bias, s.d, s.inner)),
        down(packer.linear(w.down.weight, w.down.bias, s.inner, s.d)) {}

  std::size_t scratch_size() const { return up.outputs; }
  static StepKernels<T> kernels() { return step_kernels<T>(); }
};

}  // namespace mac::mlp
