#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallel/parallel_for.hpp"
#include "training/losses.hpp"
#include "training/normalise.hpp"

namespace mac {

namespace {

/// Loops over fewer numbers than this stay on one thread: waking another would take longer.
constexpr std::size_t inputs_worth_threads = 1 << 17;

template <class T>
class ClosureLoss final : public Loss<T> {
 public:
  ClosureLoss(const LossContext& context, LossWeights weights, SequenceEngine<T>& engine)
      : context_(context),
        weights_(component_weights(context, weights)),
        normalisers_(context.normalisation),
        relative_(weights == LossWeights::relative),
        sizes_(context),
        engine_(engine) {}

  BatchForm form_of(std::size_t samples, SampleShape shape) const override {
    return {samples, samples, false, shape.sites > 0 ? shape.sites : map().sites()};
  }

  double evaluate(const T* parameters, const Batch& batch, T* gradient) override {
    sites_ = batch.sites_of_sample(map().sites());
    // Sequence b*sites + s is that of the s-th site of sample b.
    const SequenceDims dims{batch.count * sites_, batch.shape.closures};
    prepare(dims, batch.count, gradient != nullptr);

    const int threads = x_.size() > inputs_worth_threads ? context_.threads : 1;
    parallel_for(batch.count, threads, [&](std::size_t b, std::size_t) { take(batch, b, dims.time); });
    engine_.forward(parameters, dims, x_.data(), y_.data(), nullptr, nullptr,
                    gradient ? tape_.get() : nullptr);

    parallel_for(batch.count, threads, [&](std::size_t b, std::size_t) {
      skip_history(b, dims.time);
      sums_[b] = relative_ ? relative_errors(batch, b, dims.time) : squared_errors(batch, b, dims.time);
    });
    if (gradient)
      engine_.backward(parameters, dims, x_.data(), nullptr, d_y_.data(), *tape_, {.parameters = gradient});
    return batch.sum(sums_);
  }

 private:
  const InputMap& map() const { return context_.inputs; }

  /// The network's input for sample b.
  void take(const Batch& batch, std::size_t b, std::size_t times) {
    const NormaliserView normaliser = normalisers_.input.view();
    const std::size_t d = context_.system.resolved_size(), n = inputs(), e = map().given_size(),
                      first = b * batch.shape.states;
    const double* const resolved = batch.resolved.data() + first * d;
    const double* const noise = batch.noise.empty() ? nullptr : batch.noise.data() + first * d;
    const double* const given = batch.given.empty() ? nullptr : batch.given.data() + first * e;
    T* const x = x_.data() + b * sites_ * times * n;
    if (map().is_plain()) {
      for (std::size_t row = 0; row < times * d; row += d)
        for (std::size_t v = 0; v < d; ++v) {
          const double value = normaliser.to_network(v, resolved[row + v]);
          x[row + v] = static_cast<T>(noise ? value + noise[row + v] : value);
        }
      return;
    }
    std::vector<double> noisy(d);  // a disturbed state, which all sites and features see
    for (std::size_t t = 0; t < times; ++t) {
      for (std::size_t v = 0; v < d; ++v)
        noisy[v] = resolved[t * d + v] + (noise ? noise[t * d + v] * context_.resolved_scale[v] : 0);
      for (std::size_t s = 0; s < sites_; ++s)
        map().read_site(batch.site(b, s, sites_), noisy.data(), given ? given + t * e : nullptr,
                        [&](std::size_t, std::size_t f, double value) {
                          x[(s * times + t) * n + f] = static_cast<T>(normaliser.to_network(f, value));
                        });
    }
  }

  /// One output of one sequence of sample b: its numbers at the times that count, and their targets.
  struct Series {
    std::size_t y;        // of the first time that counts, in y_ and d_y_ ...
    std::size_t target;   // ... and in the batch's closures
    std::size_t closure;  // which component
    std::size_t output;
  };

  /// fn(series) for all of sample b.
  template <class Function>
  void for_each_series(const Batch& batch, std::size_t b, std::size_t times, const Function& fn) const {
    const std::size_t c = weights_.size(), outputs = map().outputs(), skipped = history(times);
    for (std::size_t s = 0; s < sites_; ++s)
      for (std::size_t j = 0; j < outputs; ++j) {
        const std::size_t closure = map().closure(batch.site(b, s, sites_), j);
        fn(Series{((b * sites_ + s) * times + skipped) * outputs + j, (b * times + skipped) * c + closure,
                  closure, j});
      }
  }

  /// y - target, times `skipped` + t; nothing where nobody knows the target (a masked closure).
  double error(const Batch& batch, const Series& series, std::size_t t) const {
    const double target = batch.closure[series.target + t * weights_.size()];
    if (std::isnan(target)) return 0;
    return static_cast<double>(y_[series.y + t * map().outputs()]) -
           normalisers_.output.to_network(series.output, target);
  }

  std::size_t history(std::size_t times) const { return std::min(context_.history, times - 1); }

  /// Times of sample b that only the memory sees; their gradient is zero.
  void skip_history(std::size_t b, std::size_t times) {
    const std::size_t outputs = map().outputs();
    for (std::size_t s = 0; s < sites_; ++s)
      std::fill_n(d_y_.begin() + static_cast<std::ptrdiff_t>((b * sites_ + s) * times * outputs),
                  history(times) * outputs, T{0});
  }

  /// Sample b's part of the loss; leaves its gradient in d_y_.
  double squared_errors(const Batch& batch, std::size_t b, std::size_t times) {
    const std::size_t outputs = map().outputs(), rows = times - history(times);
    const double share = 1 / static_cast<double>(batch.whole() * (rows * sites_ * outputs));
    // Times are the outer loop of a sum over all that a sample has.
    double sum = 0;
    for (std::size_t t = 0; t < rows; ++t)
      for_each_series(batch, b, times, [&](const Series& series) {
        const double e = error(batch, series, t), weight = weights_[series.closure];
        sum += weight * e * e;
        d_y_[series.y + t * outputs] = static_cast<T>(2 * share * weight * e);
      });
    return share * sum;
  }

  double relative_errors(const Batch& batch, std::size_t b, std::size_t times) {
    const std::size_t outputs = map().outputs(), count = times - history(times);
    const double rows = static_cast<double>(count),
                 parts = static_cast<double>(batch.whole() * sites_ * outputs);
    const std::vector<double> sizes = sizes_.of(batch, b);
    double sum = 0;
    for_each_series(batch, b, times, [&](const Series& series) {
      double squares = 0;
      for (std::size_t t = 0; t < count; ++t) squares += error(batch, series, t) * error(batch, series, t);
      const double norm = std::sqrt(squares / rows + smallest_error * smallest_error);
      const double relative = norm / sizes[context_.system.closure_targets()[series.closure]];
      sum += relative / parts;
      const double slope = relative / (parts * rows * norm * norm);
      for (std::size_t t = 0; t < count; ++t)
        d_y_[series.y + t * outputs] = static_cast<T>(slope * error(batch, series, t));
    });
    return sum;
  }

  std::size_t inputs() const { return normalisers_.input.size(); }

  void prepare(SequenceDims dims, std::size_t samples, bool with_gradient) {
    x_.resize(dims.batch * dims.time * inputs());
    y_.resize(dims.batch * dims.time * map().outputs());
    d_y_.resize(y_.size());
    sums_.resize(samples);
    if (with_gradient && (!tape_ || dims.batch > largest_.batch || dims.time > largest_.time)) {
      tape_ = engine_.make_tape(dims);
      largest_ = dims;
    }
  }

  LossContext context_;
  std::vector<double> weights_;
  Normalisers normalisers_;
  bool relative_;
  VariableSizes sizes_;
  SequenceEngine<T>& engine_;
  std::size_t sites_ = 1;  // of a sample
  std::unique_ptr<Tape> tape_;
  SequenceDims largest_;
  std::vector<T> x_, y_, d_y_;
  std::vector<double> sums_;
};

}  // namespace

VariableSizes::VariableSizes(const LossContext& context)
    : factors_(context.resolved_scale),
      groups_(symmetry_groups(context.system, context.system.resolved_size())) {
  for (double& factor : factors_) factor = 1 / factor;
}

std::vector<double> VariableSizes::of(const Batch& batch, std::size_t b) const {
  const std::size_t d = factors_.size(), states = batch.shape.states;
  std::vector<double> squares(d), members(d), sizes(d);
  for (std::size_t i = b * states * d; i < (b + 1) * states * d; i += d)
    for (std::size_t v = 0; v < d; ++v) {
      const double value = batch.resolved[i + v] * factors_[v];
      squares[groups_[v]] += value * value;
    }
  for (std::size_t v = 0; v < d; ++v) members[groups_[v]] += static_cast<double>(states);
  for (std::size_t v = 0; v < d; ++v)
    sizes[v] = std::sqrt(squares[groups_[v]] / members[groups_[v]] + smallest_size * smallest_size);
  return sizes;
}

std::vector<double> component_weights(const LossContext& context, LossWeights kind) {
  const auto targets = context.system.closure_targets();
  std::vector<double> weights(targets.size(), 1.0);
  if (kind != LossWeights::effect) return weights;
  for (std::size_t site = 0; site < context.inputs.sites(); ++site)
    for (std::size_t output = 0; output < context.inputs.outputs(); ++output) {
      const std::size_t j = context.inputs.closure(site, output);
      const double rate = context.normalisation.output_scale[output] / context.resolved_scale[targets[j]];
      weights[j] = rate * rate;
    }
  const double mean =
      std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  for (double& weight : weights) weight /= mean;
  return weights;
}

template <class T>
std::unique_ptr<Loss<T>> make_closure_loss(const LossContext& context, LossWeights weights,
                                           SequenceEngine<T>& engine) {
  return std::make_unique<ClosureLoss<T>>(context, weights, engine);
}

template std::unique_ptr<Loss<float>> make_closure_loss(const LossContext&, LossWeights,
                                                        SequenceEngine<float>&);
template std::unique_ptr<Loss<double>> make_closure_loss(const LossContext&, LossWeights,
                                                         SequenceEngine<double>&);

template <class T>
std::unique_ptr<Loss<T>> make_loss(const StagePlan& stage, const LossContext& context,
                                   SequenceEngine<T>& engine) {
  switch (stage.loss) {
    case LossKind::closure:
      return make_closure_loss(context, stage.loss_weights, engine);
    case LossKind::step:
      return make_rollout_loss(context, 1, RolloutForm::sequence, stage.loss_weights, engine,
                               stage.rollout_gradient);
    case LossKind::likelihood:
      return make_likelihood_loss(context, engine);
    case LossKind::crps:
    case LossKind::energy:
      return make_score_loss(stage, context, engine);
    case LossKind::rollout:
      break;
  }
  return make_rollout_loss(context, stage.rollout_steps, stage.rollout_form, stage.loss_weights, engine,
                           stage.rollout_gradient);
}

template std::unique_ptr<Loss<float>> make_loss(const StagePlan&, const LossContext&, SequenceEngine<float>&);
template std::unique_ptr<Loss<double>> make_loss(const StagePlan&, const LossContext&,
                                                 SequenceEngine<double>&);

}  // namespace mac
