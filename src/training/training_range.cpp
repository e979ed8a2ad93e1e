#include "training/training_range.hpp"

#include <algorithm>
#include <limits>

namespace mac {

namespace {

constexpr std::size_t most_inputs = 64;

void widen(std::vector<double>& low, std::vector<double>& high, std::span<const double> rows) {
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const std::size_t i = k % low.size();
    low[i] = std::min(low[i], rows[k]);
    high[i] = std::max(high[i], rows[k]);
  }
}

}  // namespace

TrainingRange fit_training_range(const DataSplit& train, Target target) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::size_t d = train.resolved_size(), c = train.closure_size(), times = train.times();
  TrainingRange range{std::vector<double>(d, infinity),
                      std::vector<double>(d, -infinity),
                      std::vector<double>(c, infinity),
                      std::vector<double>(c, -infinity),
                      {},
                      {}};
  std::vector<double> rows, shift, sum(d), squares(d <= most_inputs ? d * d : 0), distance(d);
  double count = 0;
  for (std::size_t trajectory = 0; trajectory < train.trajectories(); ++trajectory) {
    rows.resize(times * d);
    train.read_resolved(trajectory, 0, times, rows.data());
    widen(range.input_low, range.input_high, rows);
    // Sums are taken around a first value: a mean far from zero costs no digits of the deviation.
    if (shift.empty()) shift.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(d));
    for (std::size_t t = 0; t < times && !squares.empty(); ++t) {
      for (std::size_t i = 0; i < d; ++i) sum[i] += distance[i] = rows[t * d + i] - shift[i];
      for (std::size_t i = 0; i < d; ++i)
        for (std::size_t k = 0; k < d; ++k) squares[i * d + k] += distance[i] * distance[k];
    }
    count += static_cast<double>(times);
    const std::size_t closures = target == Target::instant ? times : times - 1;
    rows.resize(closures * c);
    if (target == Target::instant)
      train.read_closure(trajectory, 0, closures, rows.data());
    else
      train.read_closure_mean(trajectory, 0, closures, rows.data());
    widen(range.output_low, range.output_high, rows);
  }
  if (squares.empty()) return range;
  for (std::size_t i = 0; i < d; ++i) range.input_average.push_back(shift[i] + sum[i] / count);
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t k = 0; k < d; ++k)
      range.input_covariance.push_back(squares[i * d + k] / count - sum[i] / count * (sum[k] / count));
  return range;
}

}  // namespace mac
