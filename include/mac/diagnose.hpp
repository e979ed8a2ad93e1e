// Is the full model what it should be? Chaos, conserved quantities, resolution in space and time, and the
// closure's statistics, measured on an experiment's own trajectories.
#pragma once

#include <cstdint>
#include <mac/experiment.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mac {

/// The trajectories to look at.
struct DiagnosePlan {
  std::shared_ptr<const System> system;
  std::shared_ptr<const InitialCondition> initial;
  Purpose purpose = Purpose::test_data;
  std::uint64_t seed = 0;
  double dt = 0;
  double horizon = 0;
  std::size_t trajectories = 1;
  int threads = 0;  // 0: all cores
  bool quiet = false;

  /// The first `trajectories` of a split, which must not continue another.
  static DiagnosePlan of(const Experiment& experiment, const std::string& split, std::size_t trajectories);
};

/// The maximum Lyapunov exponent by Benettin's method: two full states a small distance apart, pulled back to
/// it again and again; the mean logarithmic growth per time. The first fifth of the horizon aligns the
/// difference with the fastest-growing direction and is not counted.
struct LyapunovEstimate {
  double exponent = 0;                   // mean over trajectories
  std::optional<double> standard_error;  // of that mean; none for a single trajectory
  double time = 0;                       // counted, all trajectories together
  std::vector<double> by_trajectory;
};
LyapunovEstimate lyapunov_exponent(const DiagnosePlan& plan);

/// A diagnostic of the full state over time.
struct QuantityHistory {
  std::string name;
  bool conserved = false;           // by the exact flow
  std::vector<double> time, value;  // of the first trajectory
  double drift = 0;                 // largest |q(t) - q(0)| of all trajectories
  std::optional<double> relative;   // largest |q(t) - q(0)| / |q(0)|, where q(0) is not zero
};
std::vector<QuantityHistory> quantity_histories(const DiagnosePlan& plan, std::size_t samples = 100);

/// Sizes of the Fourier modes: magnitude[i][k] is the largest |theta_k| of all trajectories at time[i].
struct SpectrumDecay {
  std::vector<double> time;
  std::vector<std::vector<double>> magnitude;
  std::vector<double> rate;  // per time: |theta_k| falls like e^{-rate k} until rounding
  std::vector<double> tail;  // per time: largest |theta_k| in the upper third, relative to the largest
};
/// None if the system has no Fourier modes.
std::optional<SpectrumDecay> spectrum_decay(const DiagnosePlan& plan, std::size_t samples = 5);

/// The solver against itself at steps halved from a coarse, stable one down to an eighth of the experiment's.
struct ConvergenceLevel {
  double dt = 0;
  double difference = 0;        // largest, of the resolved variables, to the next finer level
  std::optional<double> order;  // log2 of the ratio of this difference to the next one, above rounding
};
struct Convergence {
  double horizon = 0;
  double scale = 0;                      // largest resolved variable at the horizon
  std::vector<ConvergenceLevel> levels;  // coarse to fine
  std::optional<double> order;           // at the finest pair that is not lost in rounding
  double error = 0;                      // of the resolved variables at the experiment's dt, estimated
};
Convergence solver_convergence(const DiagnosePlan& plan);

struct ClosureStatistics {
  std::string name;
  double mean = 0, deviation = 0, minimum = 0, maximum = 0;
  /// The lag at which the correlation with itself falls below 1/e; none if that is beyond half the horizon.
  std::optional<double> correlation_time;
  double share = 0;  // root mean square, relative to that of the reduced right-hand side it corrects
};
std::vector<ClosureStatistics> closure_statistics(const DiagnosePlan& plan, std::size_t samples = 2000);

}  // namespace mac
