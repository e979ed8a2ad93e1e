#include "runtime/guard.hpp"

#include <algorithm>
#include <cmath>

namespace mac {

namespace {

/// L⁻¹ of C = L Lᵀ, row by row. A direction that the training data do not have gets a small variance, so that
/// leaving along it is seen.
std::vector<double> whitening(std::vector<double> c, std::size_t n) {
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, c[i * n + i]);
  const double least = std::max(1e-12 * largest, 1e-300);
  for (std::size_t j = 0; j < n; ++j) {  // Cholesky in place
    for (std::size_t k = 0; k < j; ++k) c[j * n + j] -= c[j * n + k] * c[j * n + k];
    c[j * n + j] = std::sqrt(std::max(c[j * n + j], least));
    for (std::size_t i = j + 1; i < n; ++i) {
      for (std::size_t k = 0; k < j; ++k) c[i * n + j] -= c[i * n + k] * c[j * n + k];
      c[i * n + j] /= c[j * n + j];
    }
  }
  std::vector<double> inverse(n * n);
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = j; i < n; ++i) {
      double sum = i == j ? 1 : 0;
      for (std::size_t k = j; k < i; ++k) sum -= c[i * n + k] * inverse[k * n + j];
      inverse[i * n + j] = sum / c[i * n + i];
    }
  return inverse;
}

}  // namespace

Guard::Range::Range(const std::vector<double>& least, const std::vector<double>& largest, double margin)
    : low(least), high(largest), width(least.size()) {
  for (std::size_t i = 0; i < low.size(); ++i) {
    width[i] = std::max(high[i] - low[i], 1e-12 * std::max({std::abs(low[i]), std::abs(high[i]), 1e-288}));
    low[i] -= margin * width[i];
    high[i] += margin * width[i];
  }
}

double Guard::Range::excess(std::size_t i, double value) const {
  return std::max({0.0, (low[i] - value) / width[i], (value - high[i]) / width[i]});
}

double Guard::Range::clipped(std::size_t i, double value) const {
  return std::min(std::max(value, low[i]), high[i]);
}

Guard::Guard(GuardSettings settings, std::size_t columns)
    : settings_(std::move(settings)),
      input_(settings_.range.input_low, settings_.range.input_high, settings_.margin),
      output_(settings_.range.output_low, settings_.range.output_high, settings_.margin),
      records_(columns),
      fallback_(columns * output_.low.size()),
      excess_(columns) {
  if (!settings_.range.input_covariance.empty())
    whitening_ = whitening(settings_.range.input_covariance, input_.low.size());
}

double Guard::distance(const double* y) const {
  const std::size_t n = input_.low.size();
  const double* const average = settings_.range.input_average.data();
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double white = 0;
    for (std::size_t k = 0; k <= i; ++k) white += whitening_[i * n + k] * (y[k] - average[k]);
    squares += white * white;
  }
  return std::sqrt(squares / static_cast<double>(n));
}

void Guard::inputs(std::size_t column, double* y) {
  Record& record = records_[column];
  double excess = 0;
  for (std::size_t i = 0; i < input_.low.size(); ++i) excess = std::max(excess, input_.excess(i, y[i]));
  if (!std::isfinite(excess)) return;
  if (!whitening_.empty()) record.distance = std::max(record.distance, distance(y));
  ++record.steps;
  excess_[column] = excess;
  if (excess == 0) return;
  ++record.inputs_outside;
  record.input_excess = std::max(record.input_excess, excess);
  const bool clips = settings_.inputs == GuardSettings::Inputs::clip;
  for (std::size_t i = 0; clips && i < input_.low.size(); ++i)
    if (std::isfinite(y[i])) y[i] = input_.clipped(i, y[i]);
  if (clips || settings_.closure == GuardSettings::Closure::fade) ++record.changed;
}

bool Guard::closure(std::size_t column, double* closure, const double* fallback) {
  Record& record = records_[column];
  const std::size_t outputs = output_.low.size();
  bool finite = true;
  double excess = 0, share = 1;
  for (std::size_t i = 0; i < outputs; ++i) {
    finite = finite && std::isfinite(closure[i]);
    excess = std::max(excess, output_.excess(i, closure[i]));
    const double middle = (output_.low[i] + output_.high[i]) / 2, half = output_.high[i] - middle;
    if (const double away = std::abs(closure[i] - middle); away > half) share = std::min(share, half / away);
  }
  if (!finite) {
    if (!replaces()) return true;
    std::copy_n(fallback, outputs, closure);
    ++record.replaced;
    return false;
  }
  if (excess > 0) {
    ++record.closure_outside;
    record.closure_excess = std::max(record.closure_excess, excess);
  }
  // A step counts once, also where its inputs were clipped before.
  const bool counted = settings_.inputs == GuardSettings::Inputs::clip && excess_[column] > 0;
  switch (settings_.closure) {
    case GuardSettings::Closure::count:
      break;
    case GuardSettings::Closure::clip:
      for (std::size_t i = 0; i < outputs; ++i) closure[i] = output_.clipped(i, closure[i]);
      record.changed += excess > 0 && !counted;
      break;
    case GuardSettings::Closure::scale:
      if (share == 1) break;
      for (std::size_t i = 0; i < outputs; ++i) {
        const double middle = (output_.low[i] + output_.high[i]) / 2;
        closure[i] = middle + share * (closure[i] - middle);
      }
      record.changed += !counted;
      break;
    case GuardSettings::Closure::fade:
      if (excess_[column] == 0) break;
      const double faded = std::min(excess_[column] / settings_.fade, 1.0);
      for (std::size_t i = 0; i < outputs; ++i) closure[i] += faded * (fallback[i] - closure[i]);
      break;
  }
  return true;
}

}  // namespace mac
