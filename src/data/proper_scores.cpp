#include "data/proper_scores.hpp"

#include <algorithm>
#include <cmath>

namespace mac {

namespace {

/// (1 - e) / (M (M - 1)), for each pair once
double pair_weight(double members, double share) {
  return members > 1 ? (1 - share / members) / (members * (members - 1)) : 0;
}

double sign(double value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }

/// |a - b| / sqrt(d), and to the slopes of a and b its own, times `weight`.
double distance(const double* a, const double* b, std::size_t d, double weight, double* slope_a,
                double* slope_b) {
  double square = 0;
  for (std::size_t v = 0; v < d; ++v) square += (a[v] - b[v]) * (a[v] - b[v]);
  const double scale = static_cast<double>(d), length = std::sqrt(square / scale);
  if (length > 0 && slope_a)
    for (std::size_t v = 0; v < d; ++v) {
      const double slope = weight * (a[v] - b[v]) / (scale * length);
      slope_a[v] += slope;
      if (slope_b) slope_b[v] -= slope;
    }
  return length;
}

}  // namespace

double crps(std::span<const double> members, double truth, double share, double weight, double* slopes) {
  const double count = static_cast<double>(members.size()), pair = pair_weight(count, share);
  double score = 0;
  for (std::size_t m = 0; m < members.size(); ++m) {
    score += std::abs(members[m] - truth) / count;
    if (slopes) slopes[m] += weight * sign(members[m] - truth) / count;
    for (std::size_t n = 0; n < m; ++n) {
      score -= pair * std::abs(members[m] - members[n]);
      if (!slopes) continue;
      const double slope = weight * pair * sign(members[m] - members[n]);
      slopes[m] -= slope;
      slopes[n] += slope;
    }
  }
  return score;
}

double energy_score(std::span<const double> members, std::span<const double> truth, double share,
                    double weight, double* slopes) {
  const std::size_t d = truth.size(), count = members.size() / d;
  const double each = 1 / static_cast<double>(count), pair = pair_weight(static_cast<double>(count), share);
  const auto slope = [&](std::size_t m) { return slopes ? slopes + m * d : nullptr; };
  double score = 0;
  for (std::size_t m = 0; m < count; ++m) {
    const double* const x = members.data() + m * d;
    score += each * distance(x, truth.data(), d, weight * each, slope(m), nullptr);
    for (std::size_t n = 0; n < m; ++n)
      score -= pair * distance(x, members.data() + n * d, d, -weight * pair, slope(m), slope(n));
  }
  return score;
}

}  // namespace mac
