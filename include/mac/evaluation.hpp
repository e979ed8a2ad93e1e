// How good rollouts are: the paper's metrics, and tables of them.
#pragma once

#include <mac/rollout.hpp>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mac {

struct MeanStd {
  double mean = 0;
  double std = 0;  // over trajectories (population), as numpy's std
};

/// Values at the saved times.
using Series = std::vector<double>;

struct IntervalMetrics {
  Interval interval;
  std::vector<MeanStd> resolved;  // relative L2 error of each variable, as a fraction
  std::vector<MeanStd> closure;
};

struct BlowUp {
  std::string file;
  std::size_t trajectory = 0;
  double time = 0;
};

struct SplitMetrics {
  std::size_t trajectories = 0;  // pooled over files, blow-ups included
  std::vector<double> time;
  std::vector<IntervalMetrics> intervals;
  MeanStd cumulative_l2;   // running_l2 at the end
  double correlation = 0;  // uncentred, as the paper defines it
  double centred_correlation = 0;
  Series running_l2;  // means over trajectories
  Series running_correlation;
  Series running_centred_correlation;
  Series physical_l2;          // sqrt of the integral of (u - u^)^2 dx, mean; Fourier systems only
  Series energy, true_energy;  // sum |theta_k|^2, mean; Fourier systems only
  std::map<std::string, Series> labelled_physical_l2;  // per named trajectory ("sin x")
  std::vector<BlowUp> blow_ups;                        // their trajectories are in no mean
};

struct ModelMetrics {
  std::string model;
  std::vector<std::string> files;  // several files of one model (seeds) are pooled
  std::map<std::string, SplitMetrics> splits;
};

struct Evaluation {
  Experiment experiment;
  std::vector<ModelMetrics> models;  // in the order of the files
};

/// Error unless all files are rollouts of the same system.
Evaluation evaluate(std::vector<RolloutFile> rollouts);

nlohmann::json to_json(const Evaluation& evaluation);

/// The paper's own number for a cell, in the units of MeanStd; none where the paper gives none.
/// quantity: "resolved", "closure", "cumulative_l2" or "correlation" (the last two with empty interval and
/// variable).
std::optional<MeanStd> paper_value(std::string_view system, std::string_view model, std::string_view split,
                                   std::string_view quantity, std::string_view interval,
                                   std::string_view variable);

enum class TableFormat { text, markdown, csv, latex };

struct Table {
  std::string title;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

/// Every table of the evaluation: errors by variable and interval, cumulative error and correlation, the
/// physical-space error of named trajectories; the paper's numbers beside ours.
std::vector<Table> tables(const Evaluation& evaluation);
std::string render(const Table& table, TableFormat format);

}  // namespace mac
