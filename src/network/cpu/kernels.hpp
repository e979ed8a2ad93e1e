// The kernels of the sequence engine, as tables of functions for this machine's instruction set.
//
// Sequences lie in vector lanes: a group of `lanes` sequences is computed at once, each lane by itself. An
// activation is an array (time, channel, lane); Rows is a run of its time points, and where a comment gives a
// shape (channels), every one of `rows` time points has that many vectors. Weights and their gradients are
// the plain tensors of ParameterLayout, shared by all lanes; gradients of weights are added to, summed over
// lanes.
#pragma once

#include <cstddef>

namespace mac::cpu {

/// Time points of an activation: numbers of row t start at data + t·stride.
template <class T>
struct Rows {
  T* data = nullptr;
  std::size_t stride = 0;

  T* row(std::size_t t) const { return data + t * stride; }
  Rows skip(std::size_t rows) const { return {data + rows * stride, stride}; }
  operator Rows<const T>() const { return {data, stride}; }
};

template <class T>
struct LinearKernels {
  /// out = residual + (bias + W in): in (inputs), out and residual (outputs), weight (outputs, inputs). A
  /// null bias or residual is absent; the residual may be the output itself.
  void (*forward)(Rows<T> out, Rows<const T> residual, Rows<const T> in, const T* weight, const T* bias,
                  std::size_t rows, std::size_t inputs, std::size_t outputs);
  /// d_in = residual + Wᵀ d_out
  void (*backward_input)(Rows<T> d_in, Rows<const T> residual, Rows<const T> d_out, const T* weight,
                         std::size_t rows, std::size_t inputs, std::size_t outputs);
  /// d_weight += d_out inᵀ, d_bias += d_out (null: no bias)
  void (*backward_weight)(T* d_weight, T* d_bias, Rows<const T> d_out, Rows<const T> in, std::size_t rows,
                          std::size_t inputs, std::size_t outputs);
};

template <class T>
struct PointwiseKernels {
  /// out = SiLU(in); slope (null: not wanted) its derivative. In place is fine.
  void (*silu_forward)(Rows<T> out, Rows<T> slope, Rows<const T> in, std::size_t rows, std::size_t channels);
  /// d_out ← d_out·slope
  void (*multiply)(Rows<T> d_out, Rows<const T> slope, std::size_t rows, std::size_t channels);
  /// out = a + b
  void (*add)(Rows<T> out, Rows<const T> a, Rows<const T> b, std::size_t rows, std::size_t channels);
  /// out = (in − mean)·scale·weight + bias; stats (2): mean, scale = 1/sqrt(variance + 1e-5)
  void (*norm_forward)(Rows<T> out, Rows<T> stats, Rows<const T> in, const T* weight, const T* bias,
                       std::size_t rows, std::size_t channels);
  /// d_in ← d_in + the gradient through the norm
  void (*norm_backward)(Rows<T> d_in, T* d_weight, T* d_bias, Rows<const T> d_out, Rows<const T> in,
                        Rows<const T> stats, const T* weight, std::size_t rows, std::size_t channels);
};

/// The inside of a Mamba block, between its linear layers. All rows are (d_inner).
template <class T>
struct MambaKernels {
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
struct ScanInput {
  Rows<const T> x, delta;  // (d_inner)
  Rows<const T> B, C;      // (d_state)
  const T* decay_rate;     // (d_inner, d_state): A·log2(e)
  const T* D;              // (d_inner)
  std::size_t rows, inner, states;
};

template <class T>
struct ScanGradient {
  Rows<T> x, delta;  // overwritten
  Rows<T> B, C;      // overwritten
  T* A_log;          // (d_inner, d_state); added to
  T* D;              // (d_inner); added to
  T* state;  // (d_inner, d_state, lane): comes in for the state after the last row, leaves for the first
};

/// States of a channel that go through the backward scan together.
constexpr std::size_t kScanTile = 4;

template <class T>
struct ScanKernels {
  /// s ← exp(ΔA) s + Δ x B, y = C·s + D x; state (d_inner, d_state, lane) is advanced
  void (*forward)(Rows<T> y, T* state, const ScanInput<T>& in);
  /// Runs the scan again from `state`, y included, then backwards. scratch: (2·rows + 1)·kScanTile vectors.
  void (*backward)(const ScanGradient<T>& out, Rows<T> y, Rows<const T> d_y, const T* state, T* scratch,
                   const ScanInput<T>& in);
};

/// The recurrence of a GRU block. Gates lie in the order r, z, n.
template <class T>
struct GruKernels {
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
LinearKernels<T> linear_kernels();
template <class T>
PointwiseKernels<T> pointwise_kernels();
template <class T>
MambaKernels<T> mamba_kernels();
template <class T>
ScanKernels<T> scan_kernels();
template <class T>
GruKernels<T> gru_kernels();

/// Lanes of the instruction set that the tables above are for.
template <class T>
std::size_t kernel_lanes();

}  // namespace mac::cpu
