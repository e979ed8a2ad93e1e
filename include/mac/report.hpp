// A page that shows what a run gave: what was run, every table, every figure.
#pragma once

#include <mac/evaluation.hpp>
#include <mac/model.hpp>
#include <string>
#include <vector>

namespace mac {

struct ReportOptions {
  int threads = 0;  // 0: all cores
  bool quiet = false;
  std::string data = {};  // the data file of rollouts, where it is not where they say
  bool times = false;     // wall times as well, which are others in another run
};

/// A report of a folder as `mac run` leaves it:
///   metrics.json                  what is compared; without it the rollouts are evaluated
///   rollouts/*.h5                 at least one; of each only what is drawn is read
///   experiment.toml               else the experiment of the rollouts
///   data.h5                       for the memory of the networks
///   models/NAME-seedN.safetensors, NAME-seedN.history.csv, and *.h5 of fitted models
///   timing.json                   wall times, if they are asked for; see docs/report.md
/// Writes `output` (HTML, self-contained) and beside it OUTPUT_files/*.pdf, one file a figure. The same
/// inputs give the same bytes. Returns what the page shows.
Evaluation report_run(const std::string& folder, const std::string& output,
                      const ReportOptions& options = {});

/// The same of rollout files alone.
Evaluation report_rollouts(const std::vector<std::string>& rollouts, const std::string& output,
                           const ReportOptions& options = {});

/// The errors over time of an evaluation, stored metrics included, as folder/NAME.svg with a legend.
void draw_series(const Evaluation& evaluation, const std::string& folder);

/// A model card (Markdown): what the network is, its data, recipe, errors and limits. `file` names the model;
/// the metrics hold the model of the same name, alone or with other seeds.
std::string model_card(const Model& model, const std::string& file, const Evaluation& metrics);

}  // namespace mac
