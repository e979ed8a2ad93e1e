#include "training/validation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mac/error.hpp>

#include "coupling/coupled_columns.hpp"
#include "coupling/network_columns.hpp"

namespace mac {

namespace {

constexpr double overflow = 1e100;  // of a state: its square is near the end of the numbers
constexpr double lost_error = 2;
/// A share of stray runs counts as so many times the error, and at most as itself: what an accurate closure does where
/// there are no data is not to outweigh what it does where there are.
constexpr double strays_count = 10;

}  // namespace

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

RolloutValidation::RolloutValidation(const DataSplit& split, const Plan& plan)
    : plan_(plan), d_(split.resolved_size()), e_(split.input_names().size()), low_(d_), high_(d_) {
  if (plan.history + 1 >= split.times())
    throw UsageError(
        "split {}: the history takes {} of its {} times, which leaves nothing to judge rollouts by; say a "
        "shorter "
        "history, or give longer trajectories",
        split.name(), plan.history + 1, split.times());
  plan_.intervals = std::min(plan.intervals, split.times() - 1 - plan_.history);
  const std::size_t times = plan_.history + plan_.intervals + 1, piece = times * d_;
  pieces_ = spread_pieces(split.trajectories(), split.times() + 1 - times, plan.pieces);
  count_ = pieces_.size();
  truth_.resize(count_ * piece);
  for (std::size_t i = 0; i < count_; ++i)
    split.read_resolved(pieces_[i].trajectory, pieces_[i].first, times, truth_.data() + i * piece);
  known_.resize(split.masked() ? count_ * times : 0);
  for (std::size_t i = 0; i < count_ && split.masked(); ++i)
    read_known(split, pieces_[i].trajectory, pieces_[i].first, times, known_.data() + i * times);
  given_.resize(count_ * steps() * e_);
  for (std::size_t i = 0; i < count_ && e_ > 0; ++i)
    split.read_inputs(pieces_[i].trajectory, pieces_[i].first, steps(), given_.data() + i * steps() * e_);
  for (std::size_t i = 0; i < count_ && !split.systems().empty(); ++i)
    systems_.push_back(split.systems()[pieces_[i].trajectory]);
  for (std::size_t v = 0; v < d_; ++v) {
    double low = truth_[v], high = low;
    for (std::size_t k = v; k < truth_.size(); k += d_) {
      low = std::min(low, truth_[k]);
      high = std::max(high, truth_[k]);
    }
    const double margin = (high - low) / 2;
    low_[v] = low - margin;
    high_[v] = high + margin;
  }
}

const double* RolloutValidation::truth(std::size_t i, std::size_t n) const {
  return truth_.data() + (i * (plan_.history + plan_.intervals + 1) + n) * d_;
}

const double* RolloutValidation::given(std::size_t n, std::vector<double>& room) const {
  if (e_ == 0) return nullptr;
  room.resize(count_ * e_);
  for (std::size_t i = 0; i < count_; ++i)
    std::copy_n(given_.data() + (i * steps() + n) * e_, e_, room.data() + i * e_);
  return room.data();
}

std::size_t RolloutValidation::steps() const {
  const double beyond = plan_.beyond * static_cast<double>(plan_.intervals);
  return plan_.history + plan_.intervals + static_cast<std::size_t>(std::lround(beyond));
}

template <class Predict>
RolloutValidation::Runs RolloutValidation::run(const LossContext& context, const Predict& predict) const {
  const std::size_t c = context.system.closure_size();
  const std::size_t end = plan_.history + plan_.intervals, last = steps();
  Runs runs{std::vector<double>(count_ * d_), std::vector<double>(count_ * d_), std::vector<char>(count_),
            std::vector<char>(count_)};
  std::vector<double> y(count_ * d_), closure(count_ * c), previous(count_ * c);
  CoupledColumns columns(context.system, context.dt, context.held, count_, systems_);
  for (std::size_t n = 0; n <= last; ++n) {
    for (std::size_t i = 0; i < count_; ++i) {
      double* const state = y.data() + i * d_;
      if (n <= plan_.history) std::copy_n(truth(i, n), d_, state);
      for (std::size_t v = 0; v < d_; ++v) {
        if (!(std::abs(state[v]) < overflow)) runs.blown_up[i] = 1;
        if (!(state[v] >= low_[v] && state[v] <= high_[v])) runs.strayed[i] = 1;
      }
      if (runs.blown_up[i]) std::fill_n(state, d_, 0.0);  // finite for the others' sake
      if (n < plan_.history || n > end) continue;
      if (!known_.empty() && !known_[i * (end + 1) + n]) continue;
      for (std::size_t v = 0; v < d_; ++v) {
        const double exact = truth(i, n)[v];
        runs.errors[i * d_ + v] += (state[v] - exact) * (state[v] - exact);
        runs.norms[i * d_ + v] += exact * exact;
      }
    }
    if (n == last) break;
    predict(n, y, closure);
    if (n >= plan_.history) columns.step(closure.data(), n > 0 ? previous.data() : nullptr, y.data());
    closure.swap(previous);
  }
  return runs;
}

double RolloutValidation::mean_error(const Runs& runs, const LossContext& context) const {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool robust = plan_.beyond > 0;
  double sum = 0, strayed = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    double piece = 0;
    for (std::size_t v = 0; v < d_; ++v) {
      const double size = smallest_size * context.resolved_scale[v];
      if (!known_.empty() && runs.norms[i * d_ + v] == 0) continue;  // nothing of the piece is known
      const double floor = robust ? size * size * static_cast<double>(plan_.intervals + 1) : 0;
      const double relative = std::sqrt(runs.errors[i * d_ + v] / std::max(floor, runs.norms[i * d_ + v]));
      if (robust)
        piece += relative / static_cast<double>(d_);
      else
        sum += relative;
    }
    if (robust) {
      sum += static_cast<double>(d_) * (runs.blown_up[i] || !(piece < lost_error) ? lost_error : piece);
      strayed += runs.strayed[i];
    } else if (runs.blown_up[i]) {
      return infinity;
    }
  }
  const double mean = sum / static_cast<double>(count_ * d_), share = strayed / static_cast<double>(count_);
  const double penalised = mean + share * std::min(1.0, strays_count * mean);
  return std::isfinite(penalised) ? penalised : infinity;
}

template <class T>
double RolloutValidation::error(const NetworkShape& shape, std::span<const T> parameters,
                                const LossContext& context) const {
  const StepEngine<T> engine(shape, parameters);
  const Normalisers normalisers(context.normalisation);
  NetworkTrajectories<T> network(engine, normalisers, context.inputs, count_);
  std::vector<T> memory(network.columns() * shape.state_size());
  std::vector<double> room;
  const auto predict = [&](std::size_t n, const std::vector<double>& y, std::vector<double>& closure) {
    network.predict(y.data(), d_, given(n, room), closure.data(), memory.data());
  };
  return mean_error(run(context, predict), context);
}

double RolloutValidation::error_without_closure(const LossContext& context) const {
  return mean_error(run(context, [](std::size_t, const std::vector<double>&, std::vector<double>&) {}),
                    context);
}

double RolloutValidation::error_of_exact_closure(const DataSplit& split, const LossContext& context) const {
  const std::size_t c = context.system.closure_size(), steps = plan_.history + plan_.intervals;
  std::vector<double> exact(count_ * steps * c);
  for (std::size_t i = 0; i < count_; ++i) {
    double* const out = exact.data() + i * steps * c;
    if (context.held.target == Target::mean)
      split.read_closure_mean(pieces_[i].trajectory, pieces_[i].first, steps, out);
    else
      split.read_closure(pieces_[i].trajectory, pieces_[i].first, steps, out);
  }
  const auto predict = [&](std::size_t n, const std::vector<double>&, std::vector<double>& closure) {
    for (std::size_t i = 0; i < count_; ++i)
      std::copy_n(exact.data() + (i * steps + n) * c, c, closure.data() + i * c);
  };
  return mean_error(run(context, predict), context);
}

template double RolloutValidation::error(const NetworkShape&, std::span<const float>,
                                         const LossContext&) const;
template double RolloutValidation::error(const NetworkShape&, std::span<const double>,
                                         const LossContext&) const;

LossValidation::LossValidation(const DataSplit& split, Target target, const StagePlan& stage,
                               std::size_t times, std::size_t samples, std::size_t frame_modes) {
  const TrainingData data(split, target, std::min(times, split.times()), 0);
  const SampleShape shape = sample_shape(stage, data);
  const std::size_t windows = data.windows(shape);
  make_room(batch_, std::min(samples, windows), shape, data);
  for (std::size_t i = 0; i < batch_.count; ++i)  // spread over all windows
    read_sample(data, data.window(shape, i * windows / batch_.count), i, batch_);
  for (std::size_t i = 0; frame_modes > 0 && i < batch_.count; ++i)
    enter_frame_of_sample(frame_modes, i, batch_);
}

}  // namespace mac
