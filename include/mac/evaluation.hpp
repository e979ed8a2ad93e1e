// How good rollouts are: the paper's metrics, and tables of them.
#pragma once

#include <mac/rollout.hpp>
#include <mac/statistics.hpp>
#include <mac/verification.hpp>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mac {

struct MeanStd {
  double mean = 0;
  double std = 0;                  // over trajectories (population), as numpy's std
  std::vector<double> seeds = {};  // the mean of each file where several were pooled; NaN: all blew up
  /// Standard deviation (n - 1) of the seeds' means; NaN for fewer than two.
  double seed_std() const;
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

/// How often a state lies outside the range of the training data, by more than a twentieth of its width:
/// shares of the saved steps.
struct OutsideShare {
  double any = 0, true_any = 0;   // in some variable: of the rollouts, of the truth
  std::vector<double> variables;  // (d), of the rollouts
};

/// Errors against a parameter that differs between trajectories.
struct ParameterMetrics {
  struct Group {
    double value = 0;      // of the parameter, or the mean of those that lie near each other
    bool outside = false;  // of the range of the training data
    std::size_t trajectories = 0, blow_ups = 0;
    MeanStd error;  // relative L2 over the whole rollout, mean over variables; blow-ups are in no mean
  };
  std::string name;
  std::optional<Interval> training;  // the range of the training data
  std::vector<Group> groups;         // in the order of their values
};

struct SplitMetrics {
  std::size_t trajectories = 0;  // pooled over files, blow-ups included
  std::vector<double> time;
  std::vector<IntervalMetrics> intervals;
  MeanStd cumulative_l2;  // running_l2 at the end
  MeanStd correlation;    // likewise; uncentred, as the paper defines it
  MeanStd centred_correlation;
  Series running_l2;  // means over trajectories
  Series running_correlation;
  Series running_centred_correlation;
  Series physical_l2;          // sqrt of the integral of (u - u^)^2 dx, mean; Fourier systems only
  Series energy, true_energy;  // sum |theta_k|^2, mean; Fourier systems only
  std::map<std::string, Series> labelled_physical_l2;  // per named trajectory ("sin x")
  std::vector<BlowUp> blow_ups;                        // their trajectories are in no mean
  std::optional<std::size_t> median_trajectory;        // of the first file, by its running_l2 at the end
  std::optional<OutsideShare> outside;                 // none where the training data are not known
  std::optional<Statistics> statistics;                // of the split statistics, of others if asked for
  std::optional<Verification> verification;            // where rollouts have several members
  std::vector<ParameterMetrics> by_parameter = {};     // of each parameter that has several values
};

/// Free rollouts on validation data and on test data over the same horizon: means over trajectories and
/// resolved variables of relative L2 errors.
struct ValidationCheck {
  double horizon = 0, validation_error = 0, test_error = 0;
};

struct ModelMetrics {
  std::string model;
  std::vector<std::string> files;  // several files of one model (seeds) are pooled
  std::map<std::string, SplitMetrics> splits;
  std::optional<ValidationCheck> validation = std::nullopt;
};

struct Evaluation {
  Experiment experiment;
  std::vector<ModelMetrics> models;  // in the order of the files
};

/// Error unless all files are rollouts of the same system.
Evaluation evaluate(std::vector<RolloutFile> rollouts);

/// Six significant digits, series thinned to some 200 times (docs/experiments.md). What read_metrics reads
/// gives the same JSON again.
nlohmann::ordered_json to_json(const Evaluation& evaluation);
/// The JSON as text: a cell or a series a line.
std::string metrics_text(const Evaluation& evaluation);

/// Reads a file of metrics_text; Error naming file and key for anything that is not as it should be.
Evaluation read_metrics(const std::string& path);

struct EvaluateOptions {
  std::string data = {};                   // the data file of the rollouts, where it is not where they say
  const Experiment* experiment = nullptr;  // its [evaluation] counts instead of the one in the rollouts
  bool statistics = false;                 // of every split, not only of the one of that name
  std::optional<double> from =
      std::nullopt;  // statistics leave earlier times out; default: the first quarter
};
/// Rollouts and stored metrics together, in any order; rollouts are read one after the other. Error if a
/// model is in more than one of the metrics, or in metrics and rollouts: means cannot be pooled.
Evaluation evaluate_files(const std::vector<std::string>& paths, const EvaluateOptions& options = {});

/// One number of two evaluations of the same models: stored ones, and new ones on other data.
struct ComparedCell {
  std::string model, split, quantity, interval, variable;  // as for paper_value
  MeanStd stored, fresh;
  double tolerance = 0;  // three standard errors: between seeds, and of both means over trajectories
  bool within() const;
};
/// Every cell that both have, and the share of trajectories that blew up. UsageError if the systems differ.
std::vector<ComparedCell> compare(const Evaluation& fresh, const Evaluation& stored);

/// The paper's own number for a cell, in the units of MeanStd; none where the paper gives none, or for other
/// parameters of the system.
/// quantity: "resolved", "closure", "cumulative_l2" or "correlation" (the last two with empty interval and
/// variable).
std::optional<MeanStd> paper_value(const Experiment& experiment, std::string_view model,
                                   std::string_view split, std::string_view quantity,
                                   std::string_view interval, std::string_view variable);

enum class TableFormat { text, markdown, csv, latex };

struct Table {
  std::string title;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  bool of_closures = false;  // errors of closures, the details of those of resolved variables
};

/// Every table of the evaluation: errors by variable and interval, cumulative error and correlation, the
/// physical-space error of named trajectories; the paper's numbers beside ours.
std::vector<Table> tables(const Evaluation& evaluation);
/// One row a table of the paper: which of its numbers are lower here, equal within the spread of the seeds,
/// or higher. Without rows where the paper has no numbers for these models.
Table paper_comparison(const Evaluation& evaluation);
/// Mean ± standard deviation in percent, and in brackets the standard deviation between seeds.
std::string percent(const MeanStd& value);
std::string render(const Table& table, TableFormat format);

}  // namespace mac
