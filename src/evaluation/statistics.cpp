#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <mac/experiment.hpp>
#include <mac/statistics.hpp>
#include <memory>
#include <numbers>
#include <numeric>

#include "evaluation/mean_std.hpp"
#include "systems/real_fft.hpp"

namespace mac {

namespace {

constexpr std::size_t pair_bins = 40;         // of a histogram of pairs, in each direction
constexpr std::size_t most_lags = 100;        // of the autocorrelation, ...
constexpr double longest_lag = 0.25;          // ... up to this share of a trajectory
constexpr std::size_t longest_window = 2048;  // of the spectrum, in saved times

/// Counts of values in equal bins; what lies beyond the ends is in the outermost.
class Histogram {
 public:
  Histogram(double low, double high, std::size_t bins)
      : low_(low), scale_(static_cast<double>(bins) / (high - low)), counts_(bins) {}

  std::size_t bin(double value) const {
    const double place = (value - low_) * scale_;
    return place <= 0 ? 0 : std::min(counts_.size() - 1, static_cast<std::size_t>(place));
  }
  void add(double value) { ++counts_[bin(value)]; }
  void add_bin(std::size_t bin) { ++counts_[bin]; }

  double total() const { return std::accumulate(counts_.begin(), counts_.end(), 0.0); }
  const std::vector<double>& counts() const { return counts_; }
  double width() const { return 1 / scale_; }

 private:
  double low_, scale_;
  std::vector<double> counts_;
};

double hellinger(const Histogram& p, const Histogram& q) {
  double overlap = 0;
  for (std::size_t i = 0; i < p.counts().size(); ++i) overlap += std::sqrt(p.counts()[i] * q.counts()[i]);
  return std::sqrt(std::max(0.0, 1 - overlap / std::sqrt(p.total() * q.total())));
}

double wasserstein(const Histogram& p, const Histogram& q) {
  double difference = 0, distance = 0;
  for (std::size_t i = 0; i < p.counts().size(); ++i) {
    difference += p.counts()[i] / p.total() - q.counts()[i] / q.total();
    distance += std::abs(difference) * p.width();
  }
  return distance;
}

double kullback_leibler(const Histogram& p, const Histogram& q) {
  const double q_total = q.total() + 0.5 * static_cast<double>(q.counts().size());
  double sum = 0;
  for (std::size_t i = 0; i < p.counts().size(); ++i)
    if (const double share = p.counts()[i] / p.total(); share > 0)
      sum += share * std::log(share * q_total / (q.counts()[i] + 0.5));
  return sum;
}

struct Moments {
  double count = 0, sum = 0, squares = 0;  // about an origin near the mean

  void add(double value) { ++count, sum += value, squares += value * value; }
  double mean() const { return sum / count; }
  double std() const { return std::sqrt(std::max(0.0, squares / count - mean() * mean())); }
};

/// The values of one quantity, (trajectory, time): several variables that a symmetry makes alike follow each other.
struct Samples {
  std::string name;
  std::vector<std::vector<double>> model, truth;  // [trajectory]
};

/// None where the truth is not known at all. Masked values are NaN and left out.
std::optional<QuantityStatistics> compare(Samples of) {
  for (auto* trajectories : {&of.model, &of.truth})
    for (auto& values : *trajectories)
      std::erase_if(values, [](double value) { return !std::isfinite(value); });
  QuantityStatistics result;
  result.name = of.name;
  std::vector<double> sorted;
  for (const auto& values : of.truth) sorted.insert(sorted.end(), values.begin(), values.end());
  if (sorted.empty()) return std::nullopt;
  std::ranges::sort(sorted);
  const double width =
      std::max(sorted.back() - sorted.front(), 1e-12 * std::max(1.0, std::abs(sorted.back())));
  result.low = sorted.front() - 0.25 * width, result.high = sorted.back() + 0.25 * width;
  const auto quantile = [&](double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  const double lower = quantile(0.01), upper = quantile(0.99), origin = quantile(0.5);
  const double far_lower = quantile(0.001), far_upper = quantile(0.999);

  const Histogram empty(result.low, result.high, statistics_bins);
  Histogram model = empty, truth = empty, halves[2] = {empty, empty};
  Moments moments, true_moments;
  double above = 0, below = 0, far_above = 0, far_below = 0;
  for (const auto& values : of.model)
    for (const double value : values) {
      model.add(value), moments.add(value - origin);
      above += value > upper, below += value < lower;
      far_above += value > far_upper, far_below += value < far_lower;
    }
  // With one trajectory its times are cut in two.
  for (std::size_t i = 0; i < of.truth.size(); ++i)
    for (std::size_t t = 0; t < of.truth[i].size(); ++t) {
      const std::size_t half = of.truth.size() > 1 ? i % 2 : 2 * t / of.truth[i].size();
      truth.add(of.truth[i][t]), halves[half].add(of.truth[i][t]), true_moments.add(of.truth[i][t] - origin);
    }
  result.mean = origin + moments.mean(), result.std = moments.std();
  result.true_mean = origin + true_moments.mean(), result.true_std = true_moments.std();
  result.hellinger = {hellinger(truth, model), hellinger(halves[0], halves[1])};
  result.wasserstein = {wasserstein(truth, model) / result.true_std,
                        wasserstein(halves[0], halves[1]) / result.true_std};
  result.kullback_leibler = {kullback_leibler(truth, model), kullback_leibler(halves[0], halves[1])};
  result.above = above / moments.count, result.below = below / moments.count;
  result.far_above = far_above / moments.count, result.far_below = far_below / moments.count;
  for (std::size_t i = 0; i < statistics_bins; ++i) {
    result.density.push_back(model.counts()[i] / (model.total() * model.width()));
    result.true_density.push_back(truth.counts()[i] / (truth.total() * truth.width()));
  }
  return result;
}

/// Trajectories (time, width) each, with the place of the first time that counts.
struct Trajectories {
  std::vector<std::vector<double>> model, truth;
};

/// Of the pairs (v, v + 1) for v in [begin, end), all in one histogram; after the last variable comes the first.
/// Pairs with a masked value are left out.
Distance compare_pairs(const Trajectories& of, std::size_t width, std::size_t begin, std::size_t end) {
  double low = INFINITY, high = -INFINITY;
  for (const auto& values : of.truth)
    for (std::size_t at = 0; at < values.size(); at += width)
      for (std::size_t v = begin; v <= end; ++v)
        if (const double value = values[at + v % width]; std::isfinite(value))
          low = std::min(low, value), high = std::max(high, value);
  const Histogram axis(low, high, pair_bins), empty(0, 1, pair_bins * pair_bins);
  Histogram model = empty, truth = empty, halves[2] = {empty, empty};
  const auto add = [&](const std::vector<double>& values, auto to) {
    for (std::size_t at = 0; at < values.size(); at += width)
      for (std::size_t v = begin; v < end; ++v) {
        const double one = values[at + v], other = values[at + (v + 1) % width];
        if (std::isfinite(one) && std::isfinite(other)) to(at, axis.bin(one) * pair_bins + axis.bin(other));
      }
  };
  for (const auto& values : of.model) add(values, [&](std::size_t, std::size_t bin) { model.add_bin(bin); });
  for (std::size_t i = 0; i < of.truth.size(); ++i)
    add(of.truth[i], [&](std::size_t at, std::size_t bin) {
      truth.add_bin(bin), halves[of.truth.size() > 1 ? i % 2 : 2 * at / of.truth[i].size()].add_bin(bin);
    });
  return {hellinger(truth, model), hellinger(halves[0], halves[1])};
}

/// The pairs of a ring are alike and count as one; other variables have a distance a pair, of which this is the mean.
Distance compare_neighbours(const Trajectories& of, std::size_t width, bool ring) {
  if (ring) return compare_pairs(of, width, 0, width);
  Distance mean;
  const double share = 1 / static_cast<double>(width - 1);
  for (std::size_t v = 0; v + 1 < width; ++v) {
    const Distance pair = compare_pairs(of, width, v, v + 1);
    mean.value += share * pair.value, mean.floor += share * pair.floor;
  }
  return mean;
}

/// Variable v of a trajectory about its mean.
std::vector<double> centred(const std::vector<double>& values, std::size_t width, std::size_t v) {
  std::vector<double> series;
  for (std::size_t at = v; at < values.size(); at += width) series.push_back(values[at]);
  const double mean = std::accumulate(series.begin(), series.end(), 0.0) / static_cast<double>(series.size());
  for (double& value : series) value -= mean;
  return series;
}

/// Means over trajectories and variables of what `of(series)` gives, an array each.
template <class Function>
std::vector<double> mean_over(const std::vector<std::vector<double>>& trajectories, std::size_t width,
                              const Function& of) {
  std::vector<double> sum;
  double count = 0;
  for (const auto& values : trajectories)
    for (std::size_t v = 0; v < width; ++v) {
      const std::vector<double> one = of(centred(values, width, v));
      if (!std::isfinite(one.front())) continue;  // a variable that stands still
      sum.resize(one.size());
      for (std::size_t i = 0; i < one.size(); ++i) sum[i] += one[i];
      ++count;
    }
  for (double& value : sum) value /= count;
  return sum;
}

Spectrum autocorrelation(const Trajectories& of, std::size_t width, double step) {
  const std::size_t times = of.truth.front().size() / width;
  const auto last = static_cast<std::size_t>(longest_lag * static_cast<double>(times));
  const std::size_t every = std::max<std::size_t>(1, (last + most_lags - 1) / most_lags);
  Spectrum result;
  for (std::size_t lag = 0; lag <= last; lag += every) result.at.push_back(static_cast<double>(lag) * step);
  const auto of_series = [&](const std::vector<double>& series) {
    std::vector<double> values;
    for (std::size_t lag = 0; lag <= last; lag += every) {
      double sum = 0;
      for (std::size_t t = 0; t + lag < series.size(); ++t) sum += series[t] * series[t + lag];
      values.push_back(sum / static_cast<double>(series.size() - lag));
    }
    const double variance = values.front();
    for (double& value : values) value /= variance;
    return values;
  };
  result.values = mean_over(of.model, width, of_series);
  result.true_values = mean_over(of.truth, width, of_series);
  return result;
}

Spectrum power(const Trajectories& of, std::size_t width, double step) {
  const std::size_t times = of.truth.front().size() / width;
  std::size_t window = longest_window;
  while (window > 8 && window > times / 4) window /= 2;
  if (window > times) return {};
  RealFft fft(window);
  std::vector<double> hann(window);
  double norm = 0;
  for (std::size_t t = 0; t < window; ++t) {
    hann[t] =
        0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(t) / static_cast<double>(window));
    norm += hann[t] * hann[t];
  }
  Spectrum result;
  for (std::size_t k = 1; k < window / 2; ++k)
    result.at.push_back(static_cast<double>(k) / (static_cast<double>(window) * step));
  const auto of_series = [&](const std::vector<double>& series) {
    std::vector<double> values(window / 2 - 1);
    std::size_t windows = 0;
    for (std::size_t first = 0; first + window <= series.size(); first += window / 2, ++windows) {
      for (std::size_t t = 0; t < window; ++t) fft.grid()[t] = hann[t] * series[first + t];
      fft.to_modes();
      for (std::size_t k = 1; k < window / 2; ++k)
        values[k - 1] +=
            fft.modes()[2 * k] * fft.modes()[2 * k] + fft.modes()[2 * k + 1] * fft.modes()[2 * k + 1];
    }
    for (double& value : values) value *= 2 * step / (norm * static_cast<double>(windows));
    return values;
  };
  result.values = mean_over(of.model, width, of_series);
  result.true_values = mean_over(of.truth, width, of_series);
  return result;
}

void append(std::optional<QuantityStatistics> one, std::vector<QuantityStatistics>& to) {
  if (one) to.push_back(std::move(*one));
}

std::optional<LyapunovExponent> exponent_of(const std::vector<double>& runs) {
  std::vector<double> known;
  for (const double rate : runs)
    if (std::isfinite(rate)) known.push_back(rate);
  if (known.empty()) return std::nullopt;
  const auto n = static_cast<double>(known.size());
  const auto [mean, std, seeds] = mean_std(known);
  return LyapunovExponent{mean, known.size() > 1 ? std / std::sqrt(n - 1) : std::nan(""), known.size()};
}

bool is_ring(const System& system) {
  for (const Symmetry& symmetry : system.symmetries())
    if (symmetry.kind == Symmetry::Kind::cyclic_shift) return true;
  return false;
}

}  // namespace

std::string variable_family(const std::string& name) {
  const std::size_t end = name.find_last_not_of("0123456789");
  return end == std::string::npos ? name : name.substr(0, end + 1);
}

struct StatisticsCollector::Impl {
  std::vector<std::string> resolved_names, closure_names;
  bool ring, fourier, has_closure;
  std::optional<double> wanted_from;
  double from = 0, step = 0;
  Trajectories resolved, closure;
  std::vector<double> lyapunov, true_lyapunov;

  bool has_truth = false;  // from the first file: all have the same

  /// Trajectory i of values (trajectory, times, width), from time `first` on.
  static std::vector<double> part(const std::vector<double>& values, std::size_t i, std::size_t times,
                                  std::size_t first, std::size_t width) {
    return {values.begin() + static_cast<std::ptrdiff_t>((i * times + first) * width),
            values.begin() + static_cast<std::ptrdiff_t>((i + 1) * times * width)};
  }

  /// Each variable of its own; of a ring all together.
  void add_quantities(const Trajectories& of, const std::vector<std::string>& names,
                      std::vector<QuantityStatistics>& to) const {
    const std::size_t width = names.size();
    if (ring) {
      append(compare({variable_family(names.front()), of.model, of.truth}), to);
      return;
    }
    for (std::size_t v = 0; v < width; ++v) {
      Samples samples{names[v], {}, {}};
      const auto pick = [&](const std::vector<std::vector<double>>& from,
                            std::vector<std::vector<double>>& picked) {
        for (const auto& values : from) {
          picked.emplace_back();
          for (std::size_t at = v; at < values.size(); at += width) picked.back().push_back(values[at]);
        }
      };
      pick(of.model, samples.model), pick(of.truth, samples.truth);
      append(compare(std::move(samples)), to);
    }
  }

  /// sum |theta_k|^2 of Fourier modes, the mean square of a ring.
  Samples energy() const {
    const std::size_t width = resolved_names.size();
    const double share = ring ? 1 / static_cast<double>(width) : 1.0;
    Samples samples{"energy", {}, {}};
    const auto sum = [&](const std::vector<std::vector<double>>& from, std::vector<std::vector<double>>& to) {
      for (const auto& values : from) {
        to.emplace_back();
        for (std::size_t at = 0; at < values.size(); at += width) {
          double square = 0;
          for (std::size_t v = 0; v < width; ++v) square += values[at + v] * values[at + v];
          to.back().push_back(share * square);
        }
      }
    };
    sum(resolved.model, samples.model), sum(resolved.truth, samples.truth);
    return samples;
  }
};

StatisticsCollector::StatisticsCollector(const Experiment& experiment, bool has_closure,
                                         std::optional<double> from)
    : impl_(std::make_unique<Impl>()) {
  const System& system = *experiment.system;
  impl_->resolved_names = system.resolved_names(), impl_->closure_names = system.closure_names();
  impl_->ring = is_ring(system), impl_->fourier = system.fourier_modes() > 0;
  impl_->has_closure = has_closure;
  impl_->wanted_from = from;
}
StatisticsCollector::~StatisticsCollector() = default;
StatisticsCollector::StatisticsCollector(StatisticsCollector&&) noexcept = default;

void StatisticsCollector::add(const RolloutSplit& split) {
  Impl& of = *impl_;
  const std::size_t times = split.time.size();
  of.from = of.wanted_from.value_or(split.time.front() + 0.25 * (split.time.back() - split.time.front()));
  const auto first = static_cast<std::size_t>(
      std::lower_bound(split.time.begin(), split.time.end(), of.from - 1e-9 * std::abs(of.from)) -
      split.time.begin());
  if (times < first + 2)
    throw UsageError("split {} ends at t = {:g}: there are no statistics from t = {:g} on", split.name,
                     split.time.back(), of.from);
  of.step = split.time[1] - split.time[0];
  const std::size_t d = of.resolved_names.size(), c = of.closure_names.size();
  for (std::size_t i = 0; i < split.trajectories(); ++i) {
    if (!of.has_truth) {
      of.resolved.truth.push_back(Impl::part(split.true_resolved, i, times, first, d));
      if (of.has_closure) of.closure.truth.push_back(Impl::part(split.true_closure, i, times, first, c));
    }
    // Each member has a climate; that of their mean would be too calm.
    const MemberRuns& members = split.members;
    const bool several = members.count > 1;
    for (std::size_t run = i * members.count; run < (i + 1) * members.count; ++run) {
      if (!std::isnan((several ? members.blow_up_time : split.blow_up_time)[run])) continue;
      of.resolved.model.push_back(
          Impl::part(several ? members.resolved : split.resolved, run, times, first, d));
      if (of.has_closure)
        of.closure.model.push_back(
            Impl::part(several ? members.closure : split.closure, run, times, first, c));
    }
  }
  of.lyapunov.insert(of.lyapunov.end(), split.lyapunov.begin(), split.lyapunov.end());
  if (!of.has_truth) of.true_lyapunov = split.true_lyapunov;
  of.has_truth = true;
}

std::optional<Statistics> StatisticsCollector::finish() const {
  const Impl& of = *impl_;
  if (of.resolved.model.empty()) return std::nullopt;
  const std::size_t width = of.resolved_names.size();
  Statistics result;
  result.from = of.from, result.trajectories = of.resolved.model.size();
  of.add_quantities(of.resolved, of.resolved_names, result.quantities);
  if (of.has_closure) of.add_quantities(of.closure, of.closure_names, result.quantities);
  if (of.ring || of.fourier) append(compare(of.energy()), result.quantities);
  if (width > 1) result.neighbours = compare_neighbours(of.resolved, width, of.ring);
  result.autocorrelation = autocorrelation(of.resolved, width, of.step);
  result.power = power(of.resolved, width, of.step);
  result.lyapunov = exponent_of(of.lyapunov), result.true_lyapunov = exponent_of(of.true_lyapunov);
  return result;
}

}  // namespace mac
