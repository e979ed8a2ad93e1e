// One plain judgement per model: whether its closure is better than none, and what speaks against trusting
// it.
#pragma once

#include <mac/evaluation.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mac {

/// Whether the name is that of the true closure, the floor under every model's error: exact, exact_linear,
/// ...
bool is_floor(std::string_view model);

/// A model against no closure and against the exact closure, on one split over one interval. Factors are
/// geometric means over the resolved variables of the ratio of mean relative L2 errors.
struct Comparison {
  std::string split, interval;
  std::optional<double> better;       // error without closure / error; infinite: without closure all blow up
  std::optional<double> above_floor;  // error / error of the exact closure
  std::optional<double> memory;       // error of a network without memory / error
};

struct Verdict {
  std::string model;
  std::vector<Comparison>
      comparisons;  // of every split, over its longest interval; the first is the headline
  std::string sentence;
  std::vector<std::string> warnings;
};

/// The first model of kind mlp, by the experiment's list or by its name: a network that remembers nothing.
const ModelMetrics* find_memoryless(const Evaluation& evaluation);

/// Of every model but markov and exact.
std::vector<Verdict> verdicts(const Evaluation& evaluation);

/// What the factors are, for readers.
std::string_view verdict_measure();

}  // namespace mac
