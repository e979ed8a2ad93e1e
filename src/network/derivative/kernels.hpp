// The functions of a step over arrays of doubles, in vector lanes: those that the step engine uses.
#pragma once

#include <cstddef>

#include "network/cpu/packer.hpp"

namespace mac::derivative {

struct Kernels {
  std::size_t lanes;
  /// out[s] = bias + in[s] W for every sample s. `out` starts at a whole vector, its stride is of whole ones.
  void (*linear)(double* out, std::size_t out_stride, const double* in, std::size_t in_stride,
                 const cpu::PackedLinear<double>& w, std::size_t samples);
  void (*sigmoid)(double* out, const double* in, std::size_t count);
  void (*tanh)(double* out, const double* in, std::size_t count);
  void (*softplus)(double* out, const double* in, std::size_t count);
  /// out = 2^(delta rate), delta >= 0 >= rate
  void (*decay)(double* out, const double* delta, const double* rate, std::size_t count);
  /// of delta rate quarter turns, delta >= 0 and rate >= 0
  void (*turn)(double* cosine, double* sine, const double* delta, const double* rate, std::size_t count);
};

/// Those for this machine.
Kernels kernels();

}  // namespace mac::derivative
