// How far a field is moved along its period, for the host and for CUDA kernels (coupling/fourier_frame.hpp).
#pragma once

#include <cmath>
#include <cstddef>
#include <mac/host_device.hpp>
#include <numbers>

namespace mac {

/// How far a state is turned: fourier_angle(turn(y, a)) = fourier_angle(y) + a, up to whole turns.
///
/// It is the phase of mode 1. A mode below a millionth of the largest one has no phase worth the name; then the first
/// mode k that has one says it up to k-th parts of a turn, and of those the later modes choose: the part in which the
/// next of them is closest to its largest real value. What then is left open is a turn that changes nothing. A state of
/// zeros has the angle 0; NaN: a number is not finite. y[i] is the number i of a row.
template <class Row>
MAC_HOST_DEVICE double fourier_angle(std::size_t modes, const Row& y) {
  constexpr double nan = NAN;
  constexpr double usable_share = 1e-6;  // of the largest amplitude
  constexpr double as_close = 1e-9;      // cosines that differ by less are those of one state, rounded
  const auto amplitude = [&](std::size_t k) { return std::hypot(y[k - 1], y[modes + k - 1]); };
  const auto phase = [&](std::size_t k) { return std::atan2(y[modes + k - 1], y[k - 1]); };
  double largest = 0;
  for (std::size_t k = 1; k <= modes; ++k) {
    if (!std::isfinite(amplitude(k))) return nan;
    largest = amplitude(k) > largest ? amplitude(k) : largest;
  }
  if (largest == 0) return 0;
  const auto usable = [&](std::size_t k) { return amplitude(k) >= usable_share * largest; };
  std::size_t first = 1;
  while (!usable(first)) ++first;
  if (first == 1) return phase(1);

  const auto part = [&](std::size_t m) {
    return (phase(first) + 2 * std::numbers::pi * static_cast<double>(m)) / static_cast<double>(first);
  };
  const auto is_better = [&](std::size_t m, std::size_t than) {
    for (std::size_t k = first + 1; k <= modes; ++k) {
      if (!usable(k)) continue;
      const auto real = [&](std::size_t of) {
        return std::cos(phase(k) - static_cast<double>(k) * part(of));
      };
      if (const double gain = real(m) - real(than); std::abs(gain) > as_close) return gain > 0;
    }
    return false;
  };
  std::size_t best = 0;
  for (std::size_t m = 1; m < first; ++m)
    if (is_better(m, best)) best = m;
  return part(best);
}

}  // namespace mac
