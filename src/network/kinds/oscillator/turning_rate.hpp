// The rates of an oscillator's states: where they come from, and those of turning in the form the vector function `turn` takes
// them.
#pragma once

#include <cmath>
#include <cstddef>
#include <mac/host_device.hpp>

namespace mac::oscillator {

/// In A_log and omega_log, of the logarithm that the rate of state n comes from: of an even state, the real part, the rate
/// of decay; of an odd one that of turning. `states` are 2·pairs.
MAC_HOST_DEVICE constexpr std::size_t place_of_rate(std::size_t c, std::size_t n, std::size_t inner,
                                                    std::size_t states) {
  return (n % 2 * inner + c) * (states / 2) + n / 2;
}

/// 2ω/π with ω = exp(omega_log), so that Δ times that is the angle in quarter turns. Step and sequence mode use this one value.
template <class T>
MAC_HOST_DEVICE T turning_rate(T omega_log) {
  return static_cast<T>(std::exp(static_cast<double>(omega_log)) * 0.63661977236758134308);
}

}  // namespace mac::oscillator
