// How long a training of several stages will take: a step of one may cost a hundred of another, so that each
// has a pace of its own, as it was measured.
#pragma once

#include <algorithm>
#include <mac/training_plan.hpp>
#include <vector>

namespace mac {

class TimeLeft {
 public:
  explicit TimeLeft(const TrainingPlan& plan) : plan_(plan), paces_(plan.stages.size()) {}

  /// So many steps of a stage took so long, validations and checkpoints among them.
  void count(std::size_t stage, std::size_t steps, double seconds) {
    paces_[stage].steps += static_cast<double>(steps);
    paces_[stage].seconds += seconds;
  }

  struct Estimate {
    double seconds = 0;
    bool at_least = false;  // a stage whose pace is not known yet is left out
  };

  /// What is left after `done` steps of the training.
  Estimate after(std::size_t done) const {
    Estimate left;
    std::size_t end = 0;
    for (std::size_t i = 0; i < paces_.size(); ++i) {
      end += plan_.stages[i].steps;
      if (done >= end) continue;
      const std::size_t steps = end - std::max(done, end - plan_.stages[i].steps);
      left.at_least = left.at_least || paces_[i].steps == 0;
      if (paces_[i].steps > 0)
        left.seconds += static_cast<double>(steps) * paces_[i].seconds / paces_[i].steps;
    }
    return left;
  }

 private:
  struct Pace {
    double steps = 0, seconds = 0;
  };
  const TrainingPlan& plan_;
  std::vector<Pace> paces_;
};

}  // namespace mac
