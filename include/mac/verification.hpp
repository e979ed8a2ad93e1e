// How far an ensemble's forecasts can be trusted: scores, spread and ranks of its members against the truth.
#pragma once

#include <array>
#include <mac/rollout.hpp>
#include <memory>
#include <optional>
#include <vector>

namespace mac {

/// Probabilities are sorted into 0, .1, .. 1.
inline constexpr std::size_t reliability_bins = 11;

/// Of the members of all trajectories of a split. Errors and scores are in standard deviations of the truth over the
/// split, means over variables and trajectories; series are over lead times.
///
/// A member that blew up goes on counting, so that no model gains by it: as a forecast of its own that is as far from
/// the truth as its last value was, or as the truth's range allows where that is farther. Of k lost members of M,
///
///   CRPS = ((M - k) CRPS of the others + sum of their distances) / M,   error^2 likewise with squares
///
/// which is never below what their last values would have given (the triangle inequality, Jensen's inequality).
struct Verification {
  std::size_t members = 0;
  std::size_t trajectories = 0;
  std::size_t lost_members = 0;  // of all trajectories: blew up before the last time
  std::vector<double> time;      // lead times, some 100 of them, after the start
  std::vector<double> crps;      // fair: of a whole distribution, whatever the number of members
  std::vector<double> climatology, persistence;  // CRPS of all true values; of the first one
  std::vector<double> error;                     // root mean square of the ensemble mean's
  std::vector<double> spread;  // root mean variance of the members times sqrt((M + 1) / M): as large as
                               // the error where the truth could be a member
                               // lost members are in no spread
  std::vector<double> lost;    // share of the members that blew up before
  std::vector<double> ranks;   // (M + 1): shares of truths above so many members; alike if all is well
  /// Of "larger than nine tenths of the truth's values": the share of forecasts with each probability, and how often it
  /// came true (NaN: no forecast).
  std::array<double, reliability_bins> forecasts{}, observed{};
  double correlation = 0;  // of the members' spread with the error of their mean, where none is lost

  /// Index of the first lead time from t on.
  std::size_t at(double t) const;
  /// Root mean squares over all lead times up to t.
  double spread_error_ratio(double t) const;
};

/// Collects the rollouts of one model and split, file after file.
class VerificationCollector {
 public:
  VerificationCollector();
  ~VerificationCollector();
  VerificationCollector(VerificationCollector&&) noexcept;

  void add(const RolloutSplit& split);
  /// None where no variable of the truth varies.
  std::optional<Verification> finish() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mac
