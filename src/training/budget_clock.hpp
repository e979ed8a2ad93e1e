// What a search has cost, and what it may still cost.
//
// Times differ from run to run; a search that is taken up again has to decide as it did. So the seconds of each training
// that is done are written down, and a decision depends on nothing but them, the counted work and the budget.
#pragma once

#include <string>
#include <vector>

namespace mac {

class BudgetClock {
 public:
  /// Reads the seconds of trainings that are done from `file`, if it is there. budget 0: any number of seconds.
  BudgetClock(std::string file, double budget);

  /// The next training is done. Its seconds are those of the file where that knows it, and written there otherwise.
  void count(double work, double seconds);

  bool has_room_for(double work) const;
  /// Of a trial, beside the `whole` training to come. Trials may take a third of the budget, whatever is left of the whole
  /// training then: wrong settings cost more than steps that are missing.
  bool has_room_for_trial(double work, double whole) const;
  /// The share of the work that there is room for, at most 1.
  double share_with_room(double work) const;

  double work() const { return work_; }
  double seconds() const { return seconds_; }

 private:
  std::string file_;
  double budget_;
  std::vector<double> known_;
  std::size_t counted_ = 0;
  double work_ = 0, seconds_ = 0;
};

}  // namespace mac
