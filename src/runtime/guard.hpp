// Watches what a state's columns give to the network and get from it, and keeps both within what the network has
// seen in training where the host asks for that.
//
// The range of a number is [low, high], widened by margin·(high − low) on either side. Its excess is how far
// outside it is, in units of high − low.
#pragma once

#include <cstdint>
#include <mac/model.hpp>
#include <vector>

namespace mac {

struct GuardSettings {
  enum class Inputs { count, clip };
  /// clip: each component into its range. scale: the closure towards the middle of the range until all of it is
  /// inside. fade: by the inputs' excess e to the fallback, of which it is min(e/fade, 1).
  enum class Closure { count, clip, scale, fade };
  Inputs inputs = Inputs::count;
  Closure closure = Closure::count;
  double margin = 0;
  double fade = 1;
  TrainingRange range;

  bool changes_numbers() const { return inputs != Inputs::count || closure != Closure::count; }
};

class Guard {
 public:
  /// What happened to a column so far.
  struct Record {
    std::uint64_t steps = 0, inputs_outside = 0, closure_outside = 0, changed = 0, replaced = 0;
    double input_excess = 0, closure_excess = 0;  // the largest
    double distance = 0;                          // Mahalanobis, over √inputs: the largest
  };

  Guard(GuardSettings settings, std::size_t columns);

  const GuardSettings& settings() const { return settings_; }
  const Record& record(std::size_t column) const { return records_[column]; }
  /// The closure to fade to, (columns, outputs); at first zero.
  void set_fallback(const double* fallback) { fallback_.assign(fallback, fallback + fallback_.size()); }

  /// y (inputs) before a step. Numbers that are not finite are left to the step to refuse.
  void inputs(std::size_t column, double* y);
  /// closure (outputs) after it; `fallback` is what it fades to. False: it was not finite, and is now the fallback.
  bool closure(std::size_t column, double* closure, const double* fallback);
  /// That of a column, as it was set.
  const double* fallback(std::size_t column) const { return fallback_.data() + column * output_.low.size(); }
  /// Whether closures that are not finite are replaced.
  bool replaces() const { return settings_.closure == GuardSettings::Closure::fade; }

 private:
  struct Range {
    std::vector<double> low, high, width;
    Range(const std::vector<double>& low, const std::vector<double>& high, double margin);
    double excess(std::size_t i, double value) const;
    double clipped(std::size_t i, double value) const;
  };
  double distance(const double* y) const;

  GuardSettings settings_;
  Range input_, output_;
  std::vector<double>
      whitening_;  // (inputs, inputs), lower triangle: of unit variance whatever is y − average
  std::vector<Record> records_;
  std::vector<double> fallback_, excess_;  // (columns, outputs); (columns): of the last inputs
};

}  // namespace mac
