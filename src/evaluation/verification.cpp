#include <algorithm>
#include <cmath>
#include <limits>
#include <mac/error.hpp>
#include <mac/verification.hpp>
#include <numeric>

#include "data/proper_scores.hpp"

namespace mac {

namespace {

constexpr std::size_t most_leads = 100;
constexpr double event_quantile = 0.9;

/// The truth of one variable over all trajectories and times, as a forecast.
class Climate {
 public:
  explicit Climate(std::vector<double> values) : sorted_(std::move(values)) {
    std::ranges::sort(sorted_);
    const double n = static_cast<double>(sorted_.size());
    sums_.push_back(0);
    double mean_distance = 0;  // E|X - X'| = 2 / n^2 sum_i (2 i + 1 - n) x_(i)
    for (std::size_t i = 0; i < sorted_.size(); ++i) {
      sums_.push_back(sums_.back() + sorted_[i]);
      mean_distance += 2 * (2 * static_cast<double>(i) + 1 - n) * sorted_[i] / (n * n);
    }
    half_distance_ = mean_distance / 2;
    const double mean = sums_.back() / n;
    double variance = 0;
    for (const double value : sorted_) variance += (value - mean) * (value - mean) / n;
    std_ = std::sqrt(variance);
  }

  double std() const { return std_; }
  /// The end of the range that is farther from y.
  double farthest_from(double y) const {
    return y - sorted_.front() > sorted_.back() - y ? sorted_.front() : sorted_.back();
  }
  double event() const {
    return sorted_[static_cast<std::size_t>(event_quantile * static_cast<double>(sorted_.size() - 1))];
  }
  /// E|X - y| - E|X - X'| / 2
  double crps(double y) const {
    const auto below = static_cast<std::size_t>(std::ranges::lower_bound(sorted_, y) - sorted_.begin());
    const double n = static_cast<double>(sorted_.size()), k = static_cast<double>(below);
    const double distance = y * (2 * k - n) - 2 * sums_[below] + sums_.back();
    return distance / n - half_distance_;
  }

 private:
  std::vector<double> sorted_, sums_;
  double half_distance_ = 0, std_ = 0;
};

struct Correlation {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0, yy = 0;
  void add(double a, double b) { ++n, x += a, y += b, xx += a * a, xy += a * b, yy += b * b; }
  double value() const { return (n * xy - x * y) / std::sqrt((n * xx - x * x) * (n * yy - y * y)); }
};

}  // namespace

struct VerificationCollector::Impl {
  Verification sums;  // error and spread as squares, ranks and events as counts
  double count = 0;   // trajectories and variables
  Correlation correlation;
  std::array<double, reliability_bins> events{};  // that came true

  /// The first trajectory and file say which lead times.
  void choose_leads(const RolloutSplit& split) {
    if (sums.members == 0) {
      sums.members = split.members.count;
      sums.ranks.resize(sums.members + 1);
      for (const std::size_t t : leads(split)) sums.time.push_back(split.time[t] - split.time.front());
      for (auto* series :
           {&sums.crps, &sums.climatology, &sums.persistence, &sums.error, &sums.spread, &sums.lost})
        series->resize(sums.time.size());
    }
    if (sums.members != split.members.count || sums.time.size() != leads(split).size())
      throw UsageError("rollouts of one model with {} and {} members, or of other lengths, are not pooled",
                       sums.members, split.members.count);
  }
  static std::vector<std::size_t> leads(const RolloutSplit& split) {
    const std::size_t last = split.time.size() - 1,
                      every = std::max<std::size_t>(1, (last + most_leads - 1) / most_leads);
    std::vector<std::size_t> chosen;
    for (std::size_t t = every; t <= last; t += every) chosen.push_back(t);
    return chosen;
  }

  /// Lead time k of one variable: members that are left, the last values of those that are lost, truth and the truth
  /// at the start, in physical units.
  void count_values(std::size_t k, const std::vector<double>& members, const std::vector<double>& lost,
                    double truth, double first, const Climate& climate) {
    const double scale = 1 / climate.std(), left = static_cast<double>(members.size());
    const double mean = std::accumulate(members.begin(), members.end(), 0.0) / left;
    double variance = 0, above = 0, rank = 0;
    for (const double member : members) {
      if (members.size() > 1) variance += (member - mean) * (member - mean) / (left - 1);
      above += member > climate.event();
      rank += member < truth;
    }
    double score = 0, square = 0;  // sums over all members
    if (left > 0) score = left * crps(members, truth, 0), square = left * (mean - truth) * (mean - truth);
    const double far = climate.farthest_from(truth);
    for (const double last : lost) {
      const double distance = std::max(std::abs(far - truth), std::abs(last - truth));
      score += distance, square += distance * distance;
      above += far > climate.event();
      rank += far < truth;
    }
    const double n = static_cast<double>(sums.members);
    sums.crps[k] += score / n * scale;
    sums.climatology[k] += climate.crps(truth) * scale;
    sums.persistence[k] += std::abs(first - truth) * scale;
    sums.error[k] += square / n * scale * scale;
    sums.spread[k] += left > 0 ? variance * scale * scale * (left + 1) / left : 0;
    sums.lost[k] += static_cast<double>(lost.size()) / n;
    sums.ranks[static_cast<std::size_t>(rank)] += 1;
    const auto bin =
        static_cast<std::size_t>(std::lround(above / n * static_cast<double>(reliability_bins - 1)));
    sums.forecasts[bin] += 1;
    events[bin] += truth > climate.event();
    if (lost.empty()) correlation.add(std::sqrt(variance) * scale, std::abs(mean - truth) * scale);
  }
};

VerificationCollector::VerificationCollector() : impl_(std::make_unique<Impl>()) {}
VerificationCollector::~VerificationCollector() = default;
VerificationCollector::VerificationCollector(VerificationCollector&&) noexcept = default;

void VerificationCollector::add(const RolloutSplit& split) {
  Impl& of = *impl_;
  if (split.members.count < 2) throw Error("split {} has no members to verify", split.name);
  of.choose_leads(split);
  const std::size_t times = split.time.size(), n = split.trajectories(), count = split.members.count,
                    d = split.resolved.size() / (n * times);
  const std::vector<std::size_t> leads = Impl::leads(split);
  // A run's values are known up to its blow-up: how many saved times that are.
  std::vector<std::size_t> known(n * count, times);
  for (std::size_t run = 0; run < n * count; ++run)
    for (std::size_t t = times; t-- > 0 && std::isnan(split.members.resolved[(run * times + t) * d]);)
      known[run] = t;
  for (std::size_t v = 0; v < d; ++v) {
    std::vector<double> values;
    for (std::size_t at = v; at < split.true_resolved.size(); at += d)
      if (std::isfinite(split.true_resolved[at])) values.push_back(split.true_resolved[at]);
    if (values.size() < 2) continue;
    const Climate climate(std::move(values));
    if (!(climate.std() > 0)) continue;  // a variable that a symmetry keeps at zero
    std::vector<double> members, lost;
    for (std::size_t i = 0; i < n; ++i) {
      const auto truth = [&](std::size_t t) { return split.true_resolved[(i * times + t) * d + v]; };
      of.count += 1;
      for (std::size_t k = 0; k < leads.size(); ++k) {
        members.clear(), lost.clear();
        for (std::size_t run = i * count; run < (i + 1) * count; ++run) {
          const auto value = [&](std::size_t t) { return split.members.resolved[(run * times + t) * d + v]; };
          if (leads[k] < known[run])
            members.push_back(value(leads[k]));
          else
            lost.push_back(known[run] > 0 ? value(known[run] - 1) : truth(leads[k]));
        }
        of.count_values(k, members, lost, truth(leads[k]), truth(0), climate);
      }
    }
  }
  of.sums.trajectories += n;
  for (const std::size_t times_known : known) of.sums.lost_members += times_known < times;
}

std::optional<Verification> VerificationCollector::finish() const {
  const Impl& of = *impl_;
  if (of.count == 0) return std::nullopt;
  Verification result = of.sums;
  for (auto* series : {&result.crps, &result.climatology, &result.persistence, &result.lost})
    for (double& value : *series) value /= of.count;
  for (auto* series : {&result.error, &result.spread})
    for (double& value : *series) value = std::sqrt(value / of.count);
  const double forecasts = of.count * static_cast<double>(result.time.size());
  for (double& share : result.ranks) share /= forecasts;
  for (std::size_t k = 0; k < reliability_bins; ++k) {
    result.observed[k] = of.sums.forecasts[k] > 0 ? of.events[k] / of.sums.forecasts[k]
                                                  : std::numeric_limits<double>::quiet_NaN();
    result.forecasts[k] /= forecasts;
  }
  result.correlation = of.correlation.value();
  return result;
}

std::size_t Verification::at(double t) const {
  const double slack = 1e-9 * std::max(1.0, std::abs(t));
  const auto found = std::ranges::lower_bound(time, t - slack);
  return std::min(time.size() - 1, static_cast<std::size_t>(found - time.begin()));
}

double Verification::spread_error_ratio(double t) const {
  double squares = 0, errors = 0;
  for (std::size_t k = 0; k <= at(t); ++k) squares += spread[k] * spread[k], errors += error[k] * error[k];
  return std::sqrt(squares / errors);
}

}  // namespace mac
