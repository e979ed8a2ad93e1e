#include "coupling/fourier_frame.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace mac {

namespace {

constexpr double usable_share = 1e-6;  // of the largest amplitude
constexpr double as_close = 1e-9;      // cosines that differ by less are those of one state, rounded

}  // namespace

void fourier_factors(std::size_t modes, double angle, double* factors) {
  for (std::size_t k = 0; k < modes; ++k) {
    factors[2 * k] = std::cos(static_cast<double>(k + 1) * angle);
    factors[2 * k + 1] = std::sin(static_cast<double>(k + 1) * angle);
  }
}

double fourier_angle(std::size_t modes, const double* y) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto amplitude = [&](std::size_t k) { return std::hypot(y[k - 1], y[modes + k - 1]); };
  const auto phase = [&](std::size_t k) { return std::atan2(y[modes + k - 1], y[k - 1]); };
  double largest = 0;
  for (std::size_t k = 1; k <= modes; ++k) {
    if (!std::isfinite(amplitude(k))) return nan;
    largest = std::max(largest, amplitude(k));
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

void enter_frame(std::size_t modes, const double* y, double* rows, std::size_t count, std::size_t stride) {
  std::vector<double> factors(2 * modes);
  fourier_factors(modes, fourier_angle(modes, y), factors.data());
  for (std::size_t i = 0; i < count; ++i) turn_modes_back(modes, factors.data(), rows + i * stride);
}

double ColumnFrames::angle(std::size_t column) const {
  return columns_[column].kept ? columns_[column].angle : std::numeric_limits<double>::quiet_NaN();
}

void ColumnFrames::set(std::size_t column, double angle) {
  columns_[column].kept = !std::isnan(angle);
  turn_to(column, angle);
}

void ColumnFrames::turn_to(std::size_t column, double angle) {
  columns_[column].angle = angle;
  fourier_factors(modes_, angle, factors_.data() + column * 2 * modes_);
}

}  // namespace mac
