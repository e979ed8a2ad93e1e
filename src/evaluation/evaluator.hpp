// Metrics of rollouts that are given one after the other: only one of them is in memory.
#pragma once

#include <mac/evaluation.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mac {

class Collector;  // of one model and split

class Evaluator {
 public:
  /// Statistics of the split of that name, or of all; `from` as in EvaluateOptions.
  explicit Evaluator(bool all_statistics = false, std::optional<double> from = std::nullopt);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// Error unless it is a rollout of the same system as those before.
  void add(RolloutFile rollout);
  Evaluation finish();

 private:
  struct ModelCollector {
    std::vector<std::string> files;
    std::map<std::string, std::unique_ptr<Collector>> splits;
    std::map<std::string, StatisticsCollector> statistics;
    std::map<std::string, VerificationCollector> verification;
    double horizon = 0;  // of the validation
    std::vector<double> validation_errors;
  };
  bool all_statistics_;
  std::optional<double> from_;
  std::optional<Experiment> experiment_;
  std::string first_path_;
  std::vector<std::string> order_;
  std::map<std::string, ModelCollector> models_;
};

}  // namespace mac
