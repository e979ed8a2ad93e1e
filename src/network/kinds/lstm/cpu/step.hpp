// An LSTM layer packed for steps.
#pragma once

#include "network/cpu/packer.hpp"
#include "network/cpu/step_blocks.hpp"
#include "network/kinds/lstm/layer.hpp"

namespace mac::lstm {

template <class T>
struct Packed;
template <class T>
using StepKernels = cpu::StepLayerKernels<T, Packed<T>>;
/// Those for this machine.
template <class T>
StepKernels<T> step_kernels();

template <class T>
struct Packed {
  cpu::PackedLinear<T> input;   // d -> i, f, g, o, each padded
  cpu::PackedLinear<T> hidden;  // likewise
  std::size_t d, padded;

  Packed(cpu::Packer<T>& packer, const Sizes& s, const Parameters<const T>& w)
      : input(packer.linear(w.input.weight, w.input.bias, s.d, s.d, 4)),
        hidden(packer.linear(w.hidden.weight, w.hidden.bias, s.d, s.d, 4)),
        d(s.d),
        padded(packer.padded(s.d)) {}

  /// The gates' parts from the input and from the hidden state.
  std::size_t scratch_size() const { return 8 * padded; }
  static StepKernels<T> kernels() { return step_kernels<T>(); }
};

}  // namespace mac::lstm
