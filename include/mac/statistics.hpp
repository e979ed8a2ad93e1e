// Long-run statistics of rollouts against the truth: what a model's climate is, where trajectories part anyway.
#pragma once

#include <mac/rollout.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mac {

/// The split whose rollouts count by their statistics alone, [data.statistics].
inline constexpr const char* statistics_split = "statistics";

/// How far the model's distribution is from the truth's, and what the same measure gives for one half of the true
/// trajectories against the other: what finite data leave of it where nothing is wrong.
struct Distance {
  double value = 0, floor = 0;
};

/// One quantity over all trajectories and times. Histograms have `statistics_bins` equal bins from `low` to `high`,
/// the truth's range with a quarter of its width on either side; what lies beyond is in the outermost.
inline constexpr std::size_t statistics_bins = 150;
struct QuantityStatistics {
  std::string name;
  double mean = 0, std = 0, true_mean = 0, true_std = 0;
  Distance hellinger;    // sqrt(1 - sum sqrt(p q)), between 0 and 1
  Distance wasserstein;  // the integral of |F - G|, in standard deviations of the truth
  Distance
      kullback_leibler;  // sum p ln(p/q), p the truth; half a count in every bin of q, so that it is finite
  double above = 0,
         below = 0;  // shares beyond the truth's 99 % and below its 1 % quantile: .01 each if all is well
  double far_above = 0, far_below = 0;  // the same of 99.9 % and .1 %; NaN: of a file that does not have them
  double low = 0, high = 0;
  std::vector<double> density, true_density;  // (statistics_bins), integrals 1
};

/// What the variables of a ring are called together: "X" of X1, X2, ...
std::string variable_family(const std::string& name);

/// A function of the lag or of the frequency, means over the resolved variables.
struct Spectrum {
  std::vector<double> at, values, true_values;
};

/// How fast nearby runs part: means over runs, and their standard errors (NaN: of one run).
struct LyapunovExponent {
  double mean = 0, error = 0;
  std::size_t runs = 0;
};

struct Statistics {
  double from = 0;               // times before are left out
  std::size_t trajectories = 0;  // that count, over all files
  std::vector<QuantityStatistics> quantities;
  std::optional<Distance> neighbours;                       // Hellinger, of pairs of neighbours
  Spectrum autocorrelation;                                 // about the mean of each trajectory; at: lags
  std::optional<LyapunovExponent> lyapunov, true_lyapunov;  // where the rollout found them
  Spectrum power;  // of Hann windows that overlap by half; at: frequencies, cycles a unit of time
};

/// Collects the rollouts of one model and split, file after file.
class StatisticsCollector {
 public:
  /// Times before `from` are left out, by default the first quarter.
  StatisticsCollector(const Experiment& experiment, bool has_closure, std::optional<double> from);
  ~StatisticsCollector();
  StatisticsCollector(StatisticsCollector&&) noexcept;

  void add(const RolloutSplit& split);
  /// None where every trajectory blew up.
  std::optional<Statistics> finish() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mac
