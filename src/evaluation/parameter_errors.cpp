#include "evaluation/parameter_errors.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "evaluation/mean_std.hpp"

namespace mac {

namespace {

struct Point {
  double value, error;
  bool outside;
};

/// Points are sorted by their values.
ParameterMetrics::Group make_group(std::span<const Point> points) {
  ParameterMetrics::Group group;
  std::vector<double> errors;
  for (const Point& point : points) {
    group.value += point.value / static_cast<double>(points.size());
    if (std::isnan(point.error))
      ++group.blow_ups;
    else
      errors.push_back(point.error);
  }
  if (points.front().value == points.back().value) group.value = points.front().value;
  group.outside = points.front().outside;
  group.trajectories = points.size();
  group.error = mean_std(errors);
  return group;
}

}  // namespace

void ParameterErrors::add(std::span<const double> parameters, double error,
                          const std::optional<ResolvedRange>& range) {
  trajectories_.push_back({{parameters.begin(), parameters.end()}, error});
  if (range) range_ = range;
}

std::vector<ParameterMetrics> ParameterErrors::finish() const {
  std::vector<ParameterMetrics> result;
  for (std::size_t k = 0; k < names_.size(); ++k) {
    ParameterMetrics metrics{names_[k], std::nullopt, {}};
    if (range_) metrics.training = Interval{range_->low[k], range_->high[k]};
    // What lies beyond the outermost of finitely many draws is still inside.
    const double slack = metrics.training ? 0.05 * (metrics.training->to - metrics.training->from) : 0;
    std::vector<Point> points;
    std::set<double> values;
    for (const Trajectory& trajectory : trajectories_) {
      const double value = trajectory.parameters[k];
      const bool outside = metrics.training &&
                           (value < metrics.training->from - slack || value > metrics.training->to + slack);
      points.push_back({value, trajectory.error, outside});
      values.insert(value);
    }
    if (values.size() < 2 && std::ranges::none_of(points, &Point::outside)) continue;
    std::ranges::stable_sort(points, {}, &Point::value);
    const std::size_t size = (points.size() + most_groups - 1) / most_groups;
    const auto ends_group = [&](std::size_t first, std::size_t next) {
      if (next == points.size() || points[next].outside != points[first].outside) return true;
      if (points[next].value == points[next - 1].value) return false;  // one value, one group
      return values.size() <= most_groups || next - first >= size;
    };
    for (std::size_t first = 0, next = 1; next <= points.size(); ++next)
      if (ends_group(first, next)) {
        metrics.groups.push_back(make_group(std::span(points).subspan(first, next - first)));
        first = next;
      }
    result.push_back(std::move(metrics));
  }
  return result;
}

}  // namespace mac
