// An oscillator layer packed for steps.
#pragma once

#include "network/kinds/oscillator/layer.hpp"
#include "network/selective/cpu/step.hpp"

namespace mac::oscillator {

template <class T>
struct Packed;
template <class T>
using StepKernels = cpu::StepLayerKernels<T, Packed<T>>;
/// Those for this machine.
template <class T>
StepKernels<T> step_kernels();

template <class T>
struct Packed : selective::Packed<T> {
  Packed(cpu::Packer<T>& packer, const Sizes& s, const Parameters<const T>& w)
      : selective::Packed<T>(packer, s, w, &Rates<T>::rate) {}

  static StepKernels<T> kernels() { return step_kernels<T>(); }
};

}  // namespace mac::oscillator
