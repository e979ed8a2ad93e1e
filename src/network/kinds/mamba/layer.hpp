// A Mamba layer (Mamba-1; the equations are in reference.hpp): the sizes and tensors are those of network/selective.
#pragma once

#include "network/selective/decay_rate.hpp"
#include "network/selective/layer.hpp"

namespace mac::mamba {

struct Sizes : selective::Sizes {
  explicit Sizes(const NetworkShape& shape) : selective::Sizes(shape, shape.d_state) {}
};

template <class T>
using Parameters = selective::Parameters<T>;  // A_log: (d_inner, d_state)
using selective::view;

/// What steps and sequences take of A_log (d_inner, d_state): the rate of state n of channel c.
template <class T>
struct Rates {
  static T rate(const T* A_log, const selective::Sizes& s, std::size_t c, std::size_t n) {
    return selective::decay_rate(A_log[c * s.d_state + n]);
  }
  /// What Δ is multiplied by, A.
  static T exponent(const T* A_log, const selective::Sizes& s, std::size_t c, std::size_t n) {
    return -std::exp(A_log[c * s.d_state + n]);
  }
};

}  // namespace mac::mamba
