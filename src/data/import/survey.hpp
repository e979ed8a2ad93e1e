// What is in recordings, found by reading them twice in blocks: steps in time, missing rows, outliers, constant
// variables, trajectories that share states. The result is a list of segments that go in equal steps without a
// missing row, which is all that the writer needs.
#pragma once

#include <mac/progress.hpp>
#include <set>
#include <utility>

#include "data/import/recordings.hpp"

namespace mac {

/// Times start, start + dt, ... of one trajectory.
struct Segment {
  std::size_t trajectory = 0;
  std::size_t first = 0;      // row of the first time, where rows are taken as they are
  double start = 0, end = 0;  // first and last time of its rows
  std::size_t times = 0;
};

struct Survey {
  double dt = 0;
  bool interpolated = false;  // at some times, or
  bool resampled = false;     // at all
  std::vector<Segment> segments;
  std::vector<std::set<std::size_t>> dropped;               // rows of each trajectory that are outliers
  std::vector<std::vector<double>> marks;                   // time of every 1024th row of each trajectory
  std::vector<std::pair<std::size_t, std::size_t>> copies;  // trajectories that share many states
  std::vector<std::string> notes, warnings;
};

inline constexpr std::size_t rows_per_mark = 1024;
inline constexpr double step_slack = 1e-3;  // of a step, within which a row is at a time

Survey survey(const Recordings& recordings, const ImportPlan& plan, Progress& progress);

/// Rows of segments: as they are, or interpolated by cubics through the nearest four rows.
class SegmentReader {
 public:
  SegmentReader(const Recordings& recordings, const Survey& survey)
      : recordings_(recordings), survey_(survey) {}

  /// (count, width); `filled`, where it is given, says of each time that no row is there.
  void read(const Segment& segment, std::size_t first, std::size_t count, double* out,
            std::vector<char>* filled = nullptr) const;

 private:
  struct Nodes {
    std::vector<double> times, rows;
  };
  Nodes nodes(const Segment& segment, double from, double to) const;

  const Recordings& recordings_;
  const Survey& survey_;
};

/// Lagrange's weights at t of the cubic through four times.
void cubic_weights(const double* times, double t, double* weights);

}  // namespace mac
