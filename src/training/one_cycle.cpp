#include "training/one_cycle.hpp"

#include <cmath>
#include <numbers>

namespace mac {

namespace {

constexpr double high_momentum = 0.95, low_momentum = 0.85, constant_momentum = 0.9;

/// From `start` (fraction 0) to `end` (fraction 1) along half a cosine.
double half_cosine(double start, double end, double fraction) {
  return end + (start - end) / 2 * (1 + std::cos(std::numbers::pi * fraction));
}

}  // namespace

OneCycle::At OneCycle::at(std::size_t step) const {
  const double first_lr = max_lr / div_factor, last_lr = first_lr / final_div_factor;
  const double now = static_cast<double>(step), last = static_cast<double>(steps) - 1;
  const double peak = warmup_fraction * static_cast<double>(steps) - 1;  // the step of the maximum
  At at{};
  if (now <= peak && peak > 0)
    at = {half_cosine(first_lr, max_lr, now / peak), half_cosine(high_momentum, low_momentum, now / peak)};
  else {
    const double fraction = last > peak ? (now - peak) / (last - peak) : 1;
    at = {half_cosine(max_lr, last_lr, fraction), half_cosine(low_momentum, high_momentum, fraction)};
  }
  if (!cycle_momentum) at.beta1 = constant_momentum;
  return at;
}

}  // namespace mac
