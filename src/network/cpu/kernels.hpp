// The kernels of the sequence engine that all kinds of layer share, as tables of functions for this machine's
// instruction set. A kind's own are in kinds/KIND/cpu/kernels.hpp.
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

template <class T>
LinearKernels<T> linear_kernels();
template <class T>
PointwiseKernels<T> pointwise_kernels();

/// Lanes of the instruction set that the tables above are for.
template <class T>
std::size_t kernel_lanes();

}  // namespace mac::cpu
