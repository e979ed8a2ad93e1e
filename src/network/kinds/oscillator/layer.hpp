// An oscillator layer (the equations are in reference.hpp): the sizes and tensors are those of network/selective. The states
// of a channel go in d_state pairs, which are the real and imaginary part of a complex number.
#pragma once

#include "network/kinds/oscillator/turning_rate.hpp"
#include "network/selective/decay_rate.hpp"
#include "network/selective/layer.hpp"

namespace mac::oscillator {

struct Sizes : selective::Sizes {
  std::size_t pairs;

  explicit Sizes(const NetworkShape& shape)
      : selective::Sizes(shape, 2 * shape.d_state), pairs(shape.d_state) {}
};

/// Its A_log is that (d_inner, pairs), and behind it omega_log (d_inner, pairs).
template <class T>
using Parameters = selective::Parameters<T>;
using selective::view;

/// What steps and sequences take: the rate of state n of channel c.
template <class T>
struct Rates {
  static T rate(const T* A_log, const selective::Sizes& s, std::size_t c, std::size_t n) {
    const T log = A_log[place_of_rate(c, n, s.d_inner, s.d_state)];
    return n % 2 == 0 ? selective::decay_rate(log) : turning_rate(log);
  }
  /// What Δ is multiplied by, −a or ω.
  static T exponent(const T* A_log, const selective::Sizes& s, std::size_t c, std::size_t n) {
    const T value = std::exp(A_log[place_of_rate(c, n, s.d_inner, s.d_state)]);
    return n % 2 == 0 ? -value : value;
  }
};

}  // namespace mac::oscillator
