#include "data/import/tendency.hpp"

#include <algorithm>
#include <cmath>

namespace mac {

namespace {

// First differences: row k is for point k of a stencil of order + 1 points; the one in the middle is central.
constexpr double second[] = {-3, 4, -1, -1, 0, 1, 1, -4, 3};  // in units of 1/(2 dt)
constexpr double fourth[] = {-25, 48, -36, 16, -3,  -3, -10, 18, -6,  1,  1,   -8, 0,
                             8,   -1, -1,  6,  -18, 10, 3,   3,  -16, 36, -48, 25};  // of 1/(12 dt)
constexpr int most_iterations = 50;

}  // namespace

void Tendency::compute(const double* states, std::size_t states_first, std::size_t times, std::size_t first,
                       std::size_t count, double* closure, double* mean) {
  const std::size_t d = system_->resolved_size(), c = system_->closure_size();
  const auto targets = system_->closure_targets();
  const auto state = [&](std::size_t t) { return states + (t - states_first) * d; };
  const std::size_t points = order_ + 1, reach = order_ / 2;
  const double* const stencils = order_ == 2 ? second : fourth;
  const double* const central = stencils + reach * points;
  const double unit = (order_ == 2 ? 2 : 12) * dt_;
  // Of the double step they are 2^order times as wrong: their difference over that less one is the error.
  const double share = std::pow(2, order_) - 1;
  std::vector<double> rate(d), reduced(d);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t t = first + i, left = std::min(t < reach ? 0 : t - reach, times - points);
    const double* const stencil = stencils + (t - left) * points;
    for (std::size_t v = 0; v < d; ++v) {
      double sum = 0;
      for (std::size_t k = 0; k < points; ++k) sum += stencil[k] * state(left + k)[v];
      rate[v] = sum / unit;
    }
    system_->reduced_rhs(state(t), reduced.data());
    for (std::size_t v = 0; v < d; ++v) all_squares_ += (rate[v] - reduced[v]) * (rate[v] - reduced[v]);
    for (std::size_t j = 0; j < c; ++j) {
      const std::size_t v = targets[j];
      const double value = closure[i * c + j] = rate[v] - reduced[v];
      closure_squares_ += value * value, ++closure_count_;
      if (t >= halo() && t + halo() < times) {
        double coarse = 0;
        for (std::size_t k = 0; k < points; ++k) coarse += central[k] * state(t - order_ + 2 * k)[v];
        const double error = (coarse / (2 * unit) - rate[v]) / share;
        error_squares_ += error * error, ++error_count_;
      }
    }
    if (t + 1 < times) step_mean(state(t), state(t + 1), mean + i * c);
  }
}

/// A fixed point: each pass adds what is still missing of the step, divided by dt. It contracts by about dt times the
/// Jacobian, so that a few passes reach rounding wherever RK4 is accurate at all.
void Tendency::step_mean(const double* from, const double* to, double* mean) const {
  const std::size_t d = system_->resolved_size(), c = system_->closure_size();
  const auto targets = system_->closure_targets();
  std::fill_n(mean, c, 0.0);
  std::vector<double> stage(d), rate(d), sum(d);
  constexpr double weights[] = {1, 2, 2, 1}, steps[] = {0, 0.5, 0.5, 1};
  double last = HUGE_VAL;
  for (int pass = 0; pass < most_iterations; ++pass) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (std::size_t s = 0; s < 4; ++s) {
      for (std::size_t v = 0; v < d; ++v) stage[v] = s == 0 ? from[v] : from[v] + steps[s] * dt_ * rate[v];
      system_->reduced_rhs(stage.data(), rate.data());
      for (std::size_t j = 0; j < c; ++j) rate[targets[j]] += mean[j];
      for (std::size_t v = 0; v < d; ++v) sum[v] += weights[s] * rate[v];
    }
    double left = 0;
    for (std::size_t j = 0; j < c; ++j) {
      const std::size_t v = targets[j];
      left = std::max(left, std::abs((to[v] - from[v]) / dt_ - sum[v] / 6));
    }
    if (!(left < last)) return;  // rounding, or steps too long to contract
    last = left;
    for (std::size_t j = 0; j < c; ++j) {
      const std::size_t v = targets[j];
      mean[j] += (to[v] - from[v]) / dt_ - sum[v] / 6;
    }
  }
}

double Tendency::error() const {
  if (error_count_ == 0 || !(closure_squares_ > 0)) return NAN;
  return std::sqrt(error_squares_ / static_cast<double>(error_count_) /
                   (closure_squares_ / static_cast<double>(closure_count_)));
}

double Tendency::unexplained() const {
  return all_squares_ > 0 ? std::max(0.0, 1 - closure_squares_ / all_squares_) : 0;
}

}  // namespace mac
