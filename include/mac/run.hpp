// A whole study: data, models, rollouts, metrics, report, in one folder.
#pragma once

#include <cstdint>
#include <mac/evaluation.hpp>
#include <mac/experiment.hpp>
#include <mac/training.hpp>
#include <string>
#include <vector>

namespace mac {

struct RunOptions {
  int threads = 0;  // 0: all cores
  bool quiet = false;
  Device device = Device::cpu;            // where networks are trained; on a device all seeds at once
  std::vector<std::uint64_t> seeds = {};  // of the networks; empty: each network's own
  std::vector<std::string> force = {};    // stages to do again: generate, train, rollout, evaluate, report
  bool allow_other_parameters = false;    // of the system than those that a trained model was made for
  bool say_warnings = true;               // on standard error, as soon as they are known
  bool report = true;                     // false: no report.html, which needs gnuplot
  std::string data_from = {};             // another run's folder: its data file is taken if it is the same
  bool portable = false;                  // networks that were trained otherwise are trained again
  bool only_data = false;                 // ends when the data are there; others take them by data_from
};

struct RunResult {
  Evaluation evaluation;
  std::string report;                      // path; empty: none was asked for
  std::size_t done = 0, kept = 0;          // outputs made, and outputs that were there and still valid
  std::vector<std::string> warnings = {};  // known before training; those of the results are in the verdicts
};

std::vector<std::string> run_stages();

/// Does what is missing or out of date in `folder`:
///
///   data.h5 -> models/NAME-seedN.safetensors, models/NAME.h5 -> rollouts/*.h5 -> metrics.json -> report.html
///
/// An output is kept when it was made from the same inputs and has not changed since, by content (run.json
/// holds the hashes), not by date. A run that was killed goes on, training from its last checkpoint.
///
/// Ranks share the trajectories of data and rollouts. Where several models are to be trained, each is trained by one
/// rank, whoever is free; a single one by all together.
RunResult run_study(const Experiment& experiment, const std::string& folder, const RunOptions& options);

}  // namespace mac
