#include "training/budget_clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "io/atomic_file.hpp"

namespace mac {

namespace {

constexpr double trials_share = 1.0 / 3;

}

BudgetClock::BudgetClock(std::string file, double budget) : file_(std::move(file)), budget_(budget) {
  std::ifstream in(file_);
  for (double seconds = 0; in >> seconds;) known_.push_back(seconds);
}

void BudgetClock::count(double work, double seconds) {
  if (counted_ == known_.size()) {
    known_.push_back(seconds);
    std::string text;
    for (const double one : known_) text += fmt::format("{}\n", one);
    write_file_atomically(file_, text);
  }
  seconds_ += known_[counted_++];
  work_ += work;
}

double BudgetClock::share_with_room(double work) const {
  if (budget_ <= 0 || work_ == 0) return 1;
  const double pace = seconds_ / work_;
  return std::clamp((budget_ - seconds_) / (pace * work), 0.0, 1.0);
}

bool BudgetClock::has_room_for(double work) const { return share_with_room(work) >= 1; }

bool BudgetClock::has_room_for_trial(double work, double whole) const {
  if (has_room_for(work + whole)) return true;
  return seconds_ + work * seconds_ / work_ <= trials_share * budget_;
}

}  // namespace mac
