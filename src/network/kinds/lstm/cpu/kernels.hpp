// The kernels of an LSTM block in the sequence engine; the conventions are those of network/cpu/kernels.hpp.
#pragma once

#include "network/cpu/kernels.hpp"

namespace mac::lstm {

using cpu::Rows;

/// The recurrence. Gates lie in the order i, f, g, o.
template <class T>
struct Kernels {
  /// hidden and cell (d) have one row before the first: the state that comes in. from_input (4d). saved (5d:
  /// i, f, g, o and q = tanh(c')) may be null. scratch: 4d vectors.
  void (*forward)(Rows<T> hidden, Rows<T> cell, Rows<T> saved, Rows<const T> from_input, const T* weight,
                  const T* bias, T* scratch, std::size_t rows, std::size_t d);
  /// d_gates (4d): gradients of W_i u + b_i, which are those of W_h h + b_h as well. d_state (2d, lane: h, c)
  /// comes in as the gradient of the last row's state and leaves as that of the state that came in; d_out (d)
  /// adds to it.
  void (*backward)(Rows<T> d_gates, T* d_state, Rows<const T> d_out, Rows<const T> cell, Rows<const T> saved,
                   const T* weight, std::size_t rows, std::size_t d);
};

template <class T>
Kernels<T> kernels();

}  // namespace mac::lstm
