// The rates of a state's decay, in the form the vector function `decay` takes them.
#pragma once

#include <cmath>
#include <mac/host_device.hpp>

namespace mac::selective {

/// a = A·log2(e) with A = −exp(A_log), so that exp(Δ A) = 2^(Δ a). Step and sequence mode use this one value.
template <class T>
MAC_HOST_DEVICE T decay_rate(T A_log) {
  return static_cast<T>(-std::exp(static_cast<double>(A_log)) * 1.44269504088896340736);
}

}  // namespace mac::selective
