// Verdicts that need rollouts of their own, made in memory: of no closure, and of the exact one.
#pragma once

#include <mac/data.hpp>
#include <mac/rollout.hpp>
#include <mac/verdict.hpp>
#include <string>
#include <vector>

namespace mac {

/// Of a model file after its training: free rollouts on validation data (else test, else training data), at
/// most 32 trajectories. Without equations a sentence that there is no comparison.
std::vector<Verdict> judge_training(const std::string& model, const DataFile& data, int threads);

/// What a search of recipe = "auto" says, as JSON, of memory: "; 3 times better in a short trial than without memory";
/// empty where it did not try.
std::string memory_in_trials(const std::string& search);

/// Of a rollout file just made with these options: its first 256 trajectories a split beside no closure.
/// Nothing of markov and exact, of continued rollouts, or where the data have no truth to compare with.
std::vector<Verdict> judge_rollout(const std::string& rollout, const DataFile& data,
                                   const RolloutOptions& options);

}  // namespace mac
