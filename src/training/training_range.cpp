#include "training/training_range.hpp"

#include <algorithm>
#include <limits>

#include "training/features.hpp"

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

TrainingRange fit_training_range(const DataSplit& train, const InputMap& inputs, Target target) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::size_t d = inputs.features(), c = inputs.outputs(), times = train.times();
  TrainingRange range{std::vector<double>(d, infinity),
                      std::vector<double>(d, -infinity),
                      std::vector<double>(c, infinity),
                      std::vector<double>(c, -infinity),
                      {},
                      {}};
  std::vector<double> rows, shift, sum(d), squares(d <= most_inputs ? d * d : 0), distance(d);
  double count = 0;
  for (std::size_t trajectory = 0; trajectory < train.trajectories(); ++trajectory) {
    read_features(train, inputs, trajectory, times, rows);
    const std::size_t samples = times * inputs.sites();
    widen(range.input_low, range.input_high, rows);
    // Sums are taken around a first value: a mean far from zero costs no digits of the deviation.
    if (shift.empty()) shift.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(d));
    for (std::size_t t = 0; t < samples && !squares.empty(); ++t) {
      for (std::size_t i = 0; i < d; ++i) sum[i] += distance[i] = rows[t * d + i] - shift[i];
      for (std::size_t i = 0; i < d; ++i)
        for (std::size_t k = 0; k < d; ++k) squares[i * d + k] += distance[i] * distance[k];
    }
    count += static_cast<double>(samples);
    const std::size_t closures = target == Target::instant ? times : times - 1;
    read_closures(train, inputs, trajectory, target, closures, rows);
    if (inputs.sites() == 1) {
      widen(range.output_low, range.output_high, rows);
      continue;
    }
    for (std::size_t k = 0; k < rows.size(); k += train.closure_size())
      for (std::size_t site = 0; site < inputs.sites(); ++site)
        for (std::size_t j = 0; j < c; ++j) {
          const double value = rows[k + inputs.closure(site, j)];
          range.output_low[j] = std::min(range.output_low[j], value);
          range.output_high[j] = std::max(range.output_high[j], value);
        }
  }
  if (squares.empty()) return range;
  for (std::size_t i = 0; i < d; ++i) range.input_average.push_back(shift[i] + sum[i] / count);
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t k = 0; k < d; ++k)
      range.input_covariance.push_back(squares[i * d + k] / count - sum[i] / count * (sum[k] / count));
  return range;
}

}  // namespace mac
