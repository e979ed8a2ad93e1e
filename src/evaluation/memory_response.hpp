// How far back a closure network remembers.
//
//   K_ji(tau) = d C_j(t) / d y_i(t - tau)
//
// along true trajectories: the exact derivative, by one backward pass in double precision from the closure at
// t through the network's memory to every resolved variable before it. What the network makes of an impulse
// in y_i is K_ji(tau) times its size.
#pragma once

#include <mac/data.hpp>
#include <mac/model.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mac {

struct MemoryOptions {
  std::string split = "test";
  std::size_t trajectories = 20;        // at most
  std::size_t times = 8;                // t per trajectory, evenly over what lies behind the longest lag
  std::optional<double> longest;        // lag; default: half a trajectory, at most default_lags steps
  double threshold = 0.01;              // of the largest response: what counts as forgotten
  int threads = 0;                      // 0: all cores
  bool allow_other_parameters = false;  // see ModelRequest
  static constexpr std::size_t default_lags = 500;
};

struct MemoryResponse {
  std::vector<std::string> closure_names, resolved_names;
  double step = 0;                   // closure step: lag l is l * step
  std::size_t lags = 0;              // 0, step, ..., (lags-1) step
  std::size_t samples = 0;           // pairs of trajectory and t
  std::vector<double> rms, mean;     // (lags, closure, resolved), over the samples
  std::vector<double> resolved_rms;  // size of each resolved variable in the data
  double threshold = 0;

  std::vector<double> lag_times() const;
  /// sqrt(sum_i (K_ji(tau) s_i)^2) for every lag, s_i the size of variable i: what impulses of the variables'
  /// own sizes do to closure component j.
  std::vector<double> strength(std::size_t j) const;
  /// The lag beyond which strength(j) stays below the threshold times its maximum; none if it does not within
  /// the lags looked at.
  std::optional<double> memory_time(std::size_t j) const;
};

/// Throws UsageError if the model does not fit the data, or the split is too short for the lags.
MemoryResponse memory_response(const Model& model, const DataFile& data, const MemoryOptions& options = {});

}  // namespace mac
