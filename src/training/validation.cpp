#include "training/validation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mac/error.hpp>

#include "coupling/network_columns.hpp"

namespace mac {

std::vector<ValidationPiece> spread_pieces(std::size_t trajectories, std::size_t starts, std::size_t pieces) {
  std::vector<ValidationPiece> spread;
  const std::size_t used = std::min(trajectories, pieces);
  for (std::size_t i = 0; i < used; ++i) {
    const std::size_t wanted = pieces * (i + 1) / used - pieces * i / used;
    const std::size_t count = std::min(wanted, starts);
    for (std::size_t k = 0; k < count; ++k) spread.push_back({i, k * starts / count});
  }
  return spread;
}

RolloutValidation::RolloutValidation(const DataSplit& split, std::size_t intervals, std::size_t pieces)
    : intervals_(std::min(intervals, split.times() - 1)), d_(split.resolved_size()) {
  const auto spread = spread_pieces(split.trajectories(), split.times() - intervals_, pieces);
  count_ = spread.size();
  const std::size_t piece = (intervals_ + 1) * d_;
  truth_.resize(count_ * piece);
  for (std::size_t i = 0; i < count_; ++i)
    split.read_resolved(spread[i].trajectory, spread[i].first, intervals_ + 1, truth_.data() + i * piece);
}

template <class T>
double RolloutValidation::error(const NetworkShape& shape, std::span<const T> parameters,
                                const LossContext& context) const {
  const std::size_t c = shape.d_out;
  const StepEngine<T> engine(shape, parameters);
  const Normalisers normalisers(context.normalisation);
  NetworkColumns<T> network(engine, normalisers, count_);
  std::vector<T> memory(count_ * shape.state_size());
  std::vector<double> y(count_ * d_), closure(count_ * c), previous(count_ * c);
  std::vector<double> errors(count_ * d_), norms(count_ * d_);
  const auto truth = [&](std::size_t i, std::size_t n) {
    return truth_.data() + (i * (intervals_ + 1) + n) * d_;
  };
  for (std::size_t i = 0; i < count_; ++i) std::copy_n(truth(i, 0), d_, y.data() + i * d_);

  for (std::size_t n = 0; n <= intervals_; ++n) {
    for (std::size_t k = 0; k < count_ * d_; ++k) {
      const double exact = truth(k / d_, n)[k % d_];
      errors[k] += (y[k] - exact) * (y[k] - exact);
      norms[k] += exact * exact;
    }
    if (n == intervals_) break;
    network.predict(y.data(), closure.data(), memory.data());
    for (std::size_t i = 0; i < count_; ++i)
      coupled_step(context.system, context.dt, context.held, closure.data() + i * c,
                   n > 0 ? previous.data() + i * c : nullptr, y.data() + i * d_);
    closure.swap(previous);
  }
  double sum = 0;
  for (std::size_t k = 0; k < errors.size(); ++k) sum += std::sqrt(errors[k] / norms[k]);
  const double mean = sum / static_cast<double>(errors.size());
  return std::isfinite(mean) ? mean : std::numeric_limits<double>::infinity();
}

template double RolloutValidation::error(const NetworkShape&, std::span<const float>,
                                         const LossContext&) const;
template double RolloutValidation::error(const NetworkShape&, std::span<const double>,
                                         const LossContext&) const;

LossValidation::LossValidation(const DataSplit& split, Target target, const StagePlan& stage,
                               std::size_t times, std::size_t samples) {
  const TrainingData data(split, target, std::min(times, split.times()), 0);
  const SampleShape shape = sample_shape(stage, data);
  const std::size_t windows = data.windows(shape);
  batch_.count = std::min(samples, windows);
  batch_.shape = shape;
  batch_.resolved.resize(batch_.count * shape.states * data.resolved_size());
  batch_.closure.resize(batch_.count * shape.closures * data.closure_size());
  for (std::size_t i = 0; i < batch_.count; ++i)  // spread over all windows
    data.read(data.window(shape, i * windows / batch_.count), shape,
              batch_.resolved.data() + i * shape.states * data.resolved_size(),
              batch_.closure.data() + i * shape.closures * data.closure_size());
}

}  // namespace mac
