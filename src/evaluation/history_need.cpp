#include "evaluation/history_need.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mac {

namespace {

constexpr double unpredictable = 0.6;  // standard deviations at the first time, from which it is not known
constexpr double better_later = 3;     // times smaller must the error be over the second half
constexpr double settled = 1.5;        // times the later error, from which on the memory is there

/// Of the later times, in which every start is forgotten.
double median_of_second_half(const std::vector<double>& errors) {
  std::vector<double> later(errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2), errors.end());
  const auto middle = later.begin() + static_cast<std::ptrdiff_t>(later.size() / 2);
  std::ranges::nth_element(later, middle);
  return *middle;
}

}  // namespace

std::vector<double> closure_errors(const ClosureModel& model, const DataSplit& split, std::size_t most) {
  const bool instant = model.held().target == Target::instant;
  const std::size_t n = std::min(most, split.trajectories()), times = split.times() - (instant ? 0 : 1),
                    d = split.resolved_size(), c = split.closure_size();
  std::vector<double> states(n * times * d), truth(n * times * c);
  for (std::size_t i = 0; i < n; ++i) {
    split.read_resolved(i, 0, times, states.data() + i * times * d);
    double* const out = truth.data() + i * times * c;
    instant ? split.read_closure(i, 0, times, out) : split.read_closure_mean(i, 0, times, out);
  }
  std::vector<double> mean(c), variance(c), counts(c);
  for (std::size_t k = 0; k < truth.size(); ++k)
    if (!std::isnan(truth[k])) mean[k % c] += truth[k], ++counts[k % c];
  for (std::size_t j = 0; j < c; ++j) mean[j] /= counts[j];
  for (std::size_t k = 0; k < truth.size(); ++k)
    if (!std::isnan(truth[k])) variance[k % c] += std::pow(truth[k] - mean[k % c], 2) / counts[k % c];

  const auto group = model.start(split, 0, n);
  std::vector<double> errors(times), y(n * d), closure(n * c);
  for (std::size_t t = 0; t < times; ++t) {
    for (std::size_t i = 0; i < n; ++i) std::copy_n(states.data() + (i * times + t) * d, d, y.data() + i * d);
    group->predict(t, y.data(), closure.data());
    double sum = 0, count = 0;
    for (std::size_t k = 0; k < n * c; ++k) {
      const double known = truth[(k / c * times + t) * c + k % c];
      if (std::isnan(known) || !(variance[k % c] > 0)) continue;
      sum += std::pow(closure[k] - known, 2) / variance[k % c], ++count;
    }
    errors[t] = count > 0 ? std::sqrt(sum / count) : 0;
  }
  return errors;
}

std::optional<std::string> history_warning(const std::string& model, const std::vector<double>& errors,
                                           double dt) {
  if (errors.size() < 8) return std::nullopt;
  const double later = median_of_second_half(errors);
  if (!(errors.front() > unpredictable) || !(errors.front() > better_later * later)) return std::nullopt;
  const auto known = std::ranges::find_if(errors, [&](double error) { return error < settled * later; });
  return fmt::format(
      "{}: the closure at the first time is as good as unpredictable, off by {:.0f} % of its spread, and by "
      "{:.2g} % later: "
      "hidden variables start at values that the resolved ones do not show; let it read the true past first, "
      "with "
      "history = {:g} or more",
      model, 100 * errors.front(), 100 * later, dt * static_cast<double>(known - errors.begin()));
}

}  // namespace mac
