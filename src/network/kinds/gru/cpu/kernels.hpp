// The kernels of a GRU block in the sequence engine; the conventions are those of network/cpu/kernels.hpp.
#pragma once

#include "network/cpu/kernels.hpp"

namespace mac::gru {

using cpu::Rows;

/// The recurrence of a GRU block. Gates lie in the order r, z, n.
template <class T>
struct Kernels {
  /// hidden (d) has one row before the first: the state that comes in. from_input (3d). saved (4d: r, z, n
  /// and q = W_hn h + b_hn) may be null. scratch: 3d vectors.
  void (*forward)(Rows<T> hidden, Rows<T> saved, Rows<const T> from_input, const T* weight, const T* bias,
                  T* scratch, std::size_t rows, std::size_t d);
  /// d_input and d_recurrent (3d): gradients of W_i u + b_i and of W_h h + b_h. d_hidden (d, lane) comes in
  /// as the gradient of the last row's state and leaves as that of the state that came in; d_out (d) adds to
  /// it.
  void (*backward)(Rows<T> d_input, Rows<T> d_recurrent, T* d_hidden, Rows<const T> d_out,
                   Rows<const T> hidden, Rows<const T> saved, const T* weight, std::size_t rows,
                   std::size_t d);
};

template <class T>
Kernels<T> kernels();

}  // namespace mac::gru
