// The kernels of a selective block in the sequence engine; the conventions are those of network/cpu/kernels.hpp.
#pragma once

#include "network/cpu/kernels.hpp"

namespace mac::selective {

using cpu::Rows;

/// The inside of a selective block, between its linear layers. All rows are (d_inner).
template <class T>
struct ChannelKernels {
  /// out = SiLU(bias + Σ_k weight[k] in[t + k]): in has d_conv-1 rows of history before the first row.
  void (*conv_forward)(Rows<T> out, Rows<T> slope, Rows<const T> in, const T* weight, const T* bias,
                       std::size_t rows, std::size_t inner);
  /// d_out is the gradient before the SiLU. d_in has the history's rows too; its last d_conv-1 rows are first
  /// given `later`, what the following time points send back.
  void (*conv_backward)(Rows<T> d_in, T* d_weight, T* d_bias, Rows<const T> d_out, Rows<const T> in,
                        const T* later, const T* weight, std::size_t rows, std::size_t inner);
  /// delta ← softplus(delta); slope its derivative (null: not wanted)
  void (*softplus_forward)(Rows<T> delta, Rows<T> slope, std::size_t rows, std::size_t inner);
  /// g = y·SiLU(z)
  void (*gate_forward)(Rows<T> g, Rows<const T> y, Rows<const T> z, std::size_t rows, std::size_t inner);
  /// d_y = d_g·gate, with gate = SiLU(z)
  void (*gate_backward_y)(Rows<T> d_y, Rows<const T> d_g, Rows<const T> gate, std::size_t rows,
                          std::size_t inner);
  /// d_z = d_g·y·slope, g = y·gate
  void (*gate_backward_z)(Rows<T> d_z, Rows<T> g, Rows<const T> d_g, Rows<const T> y, Rows<const T> gate,
                          Rows<const T> slope, std::size_t rows, std::size_t inner);
};

template <class T>
struct ScanRows {
  Rows<const T> x, delta;  // (d_inner)
  Rows<const T> B, C;      // (d_state)
  const T* rates;          // (d_inner, d_state): of decay and, where states turn, of turning
  const T* D;              // (d_inner)
  std::size_t rows, inner, states;
};

template <class T>
struct ScanRowGradients {
  Rows<T> x, delta;  // overwritten
  Rows<T> B, C;      // overwritten
  T* A_log;          // d_inner·d_state numbers, which the kind knows; added to
  T* D;              // (d_inner); added to
  T* state;  // (d_inner, d_state, lane): comes in for the state after the last row, leaves for the first
};

/// States of a channel that go through the backward scan together.
constexpr std::size_t kScanTile = 4;

template <class T>
struct ScanKernels {
  /// s_t = F_t s_{t−1} + Δ x B, y = C·s + D x, where F_t is what Δ_t and the rates make of the state before; state
  /// (d_inner, d_state, lane) is advanced
  void (*forward)(Rows<T> y, T* state, const ScanRows<T>& in);
  /// Runs the scan again from `state`, y included, then backwards. scratch: (2·rows + 1)·kScanTile vectors.
  void (*backward)(const ScanRowGradients<T>& out, Rows<T> y, Rows<const T> d_y, const T* state, T* scratch,
                   const ScanRows<T>& in);
};

template <class T>
ChannelKernels<T> channel_kernels();

}  // namespace mac::selective
