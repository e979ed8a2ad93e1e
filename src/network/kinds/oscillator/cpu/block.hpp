// An oscillator block over a chunk of time points.
#pragma once

#include "network/kinds/oscillator/layer.hpp"
#include "network/selective/cpu/block.hpp"

namespace mac::oscillator {

template <class T>
selective::ScanKernels<T> scan_kernels();

template <class T>
struct Recurrence : Rates<T> {
  static selective::ScanKernels<T> kernels() { return scan_kernels<T>(); }
};

template <class T>
using Block = selective::Block<T, Recurrence>;

}  // namespace mac::oscillator
